"""The plugin in a pytest of its own: what a project sees that uses it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import WITHIN_S, patient, until

ROOT = Path(__file__).parents[3]
RUN_S = patient(100)
BASE = "base"
PLUGIN = "from rollcall.pytest_plugin import *\n"
"""Instead of its entry point, which an installation that is older than the plugin lacks."""

FAILING = """
import pytest
from confluent_kafka import Consumer

def test_that_fails(rollcall_cluster):
    print(f"process={rollcall_cluster._server._process.pid}")
    topic, group = rollcall_cluster.topic(4), rollcall_cluster.group()
    rollcall_cluster.group()
    consumer = Consumer({
        "bootstrap.servers": rollcall_cluster.bootstrap, "group.id": group, "client.id": "web-3",
    })
    consumer.subscribe([topic])
    rollcall_cluster.await_assigned(group, partitions=4, poll=lambda: consumer.poll(0.1))
    consumer.close()
    assert False, "on purpose"

@pytest.fixture
def ready(request):
    cluster = request.getfixturevalue("rollcall_cluster")
    cluster.await_assigned(cluster.group(), timeout_s=0)

def test_whose_setup_fails(ready):
    pass

def test_that_passes(rollcall_cluster):
    print(f"bootstrap={rollcall_cluster.bootstrap}")
    assert rollcall_cluster.topic(3)
"""
ANOTHER = """
def test_of_another_module(rollcall_cluster):
    print(f"bootstrap={rollcall_cluster.bootstrap}")
"""
CONFIGURED = """
import pytest

@pytest.fixture(scope="session")
def rollcall_configs():
    return {{"{}": "nonsense"}}
"""
WITHOUT = """
def test_without_a_cluster():
    pass
"""
ENDING = """
def test_whose_cluster_dies(rollcall_cluster):
    rollcall_cluster._server._process.kill()
    rollcall_cluster.topic()
"""


def run(directory: Path, test: str, conftest: str = "") -> subprocess.CompletedProcess[str]:
    """Run one file of tests, and those that are there, to the end."""
    (directory / "test_it.py").write_text(test)
    (directory / "conftest.py").write_text(PLUGIN + conftest)
    words = ["-p", "no:cacheprovider", "-rA", "--tb=short", "-p", "no:rollcall"]
    words += ["--basetemp", str(directory / BASE)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(directory)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


def started(directory: Path) -> int:
    """Return how many clusters were started: each has a directory of its own."""
    return len([*(directory / BASE).rglob("cluster.log")])


def test_one_cluster_serves_all_modules_ends_and_tells_the_story_of_a_failure(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_another.py").write_text(ANOTHER)
    ran = run(tmp_path, FAILING)
    assert "1 failed, 2 passed, 1 error" in ran.stdout, ran.stdout + ran.stderr
    for sentence in (
        r" generation 0 → 1: member web-3 \(127\.0\.0\.1\) joined; 4 partitions newly assigned",
        r" generation 1 → 2: member web-3 \(127\.0\.0\.1\) left.*; no members are left",
        " no rebalance",
    ):
        line = rf"(?m)^.*group test_that_fails-\w+:{sentence}$"
        assert re.search(line, ran.stdout), f"{line}: {ran.stdout}"
    assert re.search(r"(?m)^group test_whose_setup_fails-\w+: no rebalance$", ran.stdout)
    assert ran.stdout.count("What happened to the groups") == 2
    assert len(re.findall("bootstrap=", ran.stdout)) == 2
    assert len(set(re.findall("bootstrap=(.*)", ran.stdout))) == 1
    assert started(tmp_path) == 1
    (process,) = re.findall(r"process=(\d+)", ran.stdout)
    until(lambda: not psutil.pid_exists(int(process)), WITHIN_S, "the cluster has ended")


def test_a_test_without_the_fixture_starts_nothing(tmp_path: Path) -> None:
    ran = run(tmp_path, WITHOUT)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert started(tmp_path) == 0


@pytest.mark.parametrize("config", ["no.such.config", "group.max.size"])
def test_a_wrong_config_fails_with_one_sentence(tmp_path: Path, config: str) -> None:
    ran = run(tmp_path, FAILING, CONFIGURED.format(config))
    assert "3 errors" in ran.stdout, ran.stdout + ran.stderr
    assert config in ran.stdout
    assert "Traceback" not in ran.stdout


def test_a_cluster_that_has_died_is_said_to_have_died(tmp_path: Path) -> None:
    ran = run(tmp_path, ENDING)
    assert "The cluster's process has ended" in ran.stdout, ran.stdout + ran.stderr
