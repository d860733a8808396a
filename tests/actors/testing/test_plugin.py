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
PLUGIN = "from rollcall.pytest_plugin import *\n"
"""Instead of its entry point, which an installation that is older than the plugin lacks."""

FAILING = """
def test_that_fails(rollcall_cluster):
    print(f"process={rollcall_cluster._server._process.pid}")
    print(f"bootstrap={rollcall_cluster.bootstrap}")
    rollcall_cluster.group()
    assert False, "on purpose"

def test_that_passes(rollcall_cluster):
    print(f"bootstrap={rollcall_cluster.bootstrap}")
    assert rollcall_cluster.topic(3)
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
    """Run one file of tests to the end."""
    (directory / "test_it.py").write_text(test)
    (directory / "conftest.py").write_text(PLUGIN + conftest)
    words = ("-p", "no:cacheprovider", "-rA", "--tb=short", "-p", "no:rollcall")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(directory)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


def test_one_cluster_serves_all_tests_ends_and_tells_the_story_of_a_failure(tmp_path: Path) -> None:
    ran = run(tmp_path, FAILING)
    assert "1 failed, 1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "What happened to the groups" in ran.stdout
    assert re.search(r"group test_that_fails-\w+: nothing has happened", ran.stdout)
    assert len(set(re.findall("bootstrap=(.*)", ran.stdout))) == 1
    (process,) = re.findall(r"process=(\d+)", ran.stdout)
    until(lambda: not psutil.pid_exists(int(process)), WITHIN_S, "the cluster has ended")


def test_a_test_without_the_fixture_starts_nothing(tmp_path: Path) -> None:
    ran = run(tmp_path, WITHOUT)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert not [*tmp_path.rglob("cluster.log")]


@pytest.mark.parametrize("config", ["no.such.config", "group.max.size"])
def test_a_wrong_config_fails_with_one_sentence(tmp_path: Path, config: str) -> None:
    ran = run(tmp_path, FAILING, CONFIGURED.format(config))
    assert "2 errors" in ran.stdout, ran.stdout + ran.stderr
    assert config in ran.stdout
    assert "Traceback" not in ran.stdout


def test_a_cluster_that_has_died_is_said_to_have_died(tmp_path: Path) -> None:
    ran = run(tmp_path, ENDING)
    assert "The cluster's process has ended" in ran.stdout, ran.stdout + ran.stderr
