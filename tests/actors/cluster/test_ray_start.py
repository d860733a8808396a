"""A cluster on a Ray that ``ray start --head`` began: it is found there, and Ray outlives it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cluster import processes, ray_node
from actors.errors import ExitCode
from bench.hosts.ray_hosts import GIVEN_UP, STARTS_MAX
from tests.actors.deployment.test_cluster import answers
from tests.conftest import rollcall
from tests.waiting import patient

NOT_NICE = {"RAY_worker_niceness": "0"}
"""Ray's workers stand back by 15, behind all that other tests compute meanwhile."""


@pytest.fixture(scope="module")
def ray_dir() -> Iterator[Path]:
    """Begin a Ray as a user does; give the directory by which it is found."""
    home = Path(f"/tmp/rc-test-ray-{os.getpid()}")  # sockets have short paths
    words = ["start", "--head", "--port=0", "--num-cpus=2", "--include-dashboard=false"]
    words += ["--disable-usage-stats", "--object-store-memory=80000000"]

    def start() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).parent / "ray"), *words],
            capture_output=True,
            text=True,
            env={**os.environ, "RAY_TMPDIR": str(home), **NOT_NICE},
            timeout=patient(90),
            check=False,
        )

    try:
        done = start()
        for _ in range(STARTS_MAX - 1):
            if GIVEN_UP not in done.stderr:
                break
            processes.end(lambda: processes_of(home))
            done = start()
        assert done.returncode == 0, done.stdout + done.stderr
        yield home
    finally:
        processes.end(lambda: processes_of(home))
        ray_node.remove(home)


def processes_of(home: Path) -> set[processes.Process]:
    """Find the processes of a Ray that does not know the mark of ours."""
    roots = processes.with_environment(f"RAY_TMPDIR={home}") | processes.with_output_in(home)
    return processes.living(pid for root, _ in roots for pid in processes.descendants(root))


def test_up_status_and_down_find_each_other_through_ray(ray_dir: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    up = ("up", "--address", "auto", "--detach", "--port", "0", "--data-dir", data)
    one = ("--set", "offsets.topic.num.partitions=1")
    done = rollcall(*up, *one, RAY_TMPDIR=str(ray_dir))
    assert done.returncode == 0, done.stderr
    bootstrap = dict(word.split("=", 1) for word in done.stdout.split()[1:])["bootstrap"]
    try:
        assert answers(bootstrap)
        by_directory = rollcall("status", "--json", "--data-dir", data)
        assert by_directory.returncode == ExitCode.DEGRADED, "there is one replica and not three"
        shown = rollcall("status", "--json", "--address", "auto", RAY_TMPDIR=str(ray_dir))
        assert shown.returncode == ExitCode.DEGRADED, shown.stderr
        status = json.loads(shown.stdout)
        assert status["bootstrap"] == bootstrap
        assert len(status["workers"]) == 2
        own = f"to files: {data / 'traces' / '<process>.jsonl'}"
        said = f"Traces go where the variables of `ray start` say, otherwise {own}."
        assert said in done.stderr
        assert status["coordinators"][0]["traces"] == {"go": own, "is_failing": False}
        second = rollcall(*up[:-1], tmp_path / "other", *one, RAY_TMPDIR=str(ray_dir))
        assert second.returncode == ExitCode.ALREADY_RUNNING
        assert "A Rollcall cluster is already running on this Ray" in second.stderr
        assert answers(bootstrap), "the refused one has harmed nobody"
    finally:
        down = rollcall("down", "--address", "auto", RAY_TMPDIR=str(ray_dir))
    assert down.returncode == 0, down.stderr
    assert not answers(bootstrap)
    gone = rollcall("status", "--address", "auto", RAY_TMPDIR=str(ray_dir))
    assert gone.returncode == ExitCode.NO_CLUSTER
    assert "No Rollcall cluster is running on this Ray" in gone.stderr
    file = {"ROLLCALL_TRACES_FILE": str(tmp_path / "traces.jsonl")}
    again = rollcall(*up, RAY_TMPDIR=str(ray_dir), OTEL_SERVICE_NAME="of-this-shell", **file)
    assert again.returncode == 0, again.stderr
    assert bootstrap in again.stdout
    where = f"to files: {tmp_path / 'traces-<pid>.jsonl'}"
    assert f"rollcall: Traces go {where}." in again.stderr.splitlines()
    try:
        lines = rollcall("status", "--data-dir", data).stdout.splitlines()
        assert f"traces    {where}" in lines, "the coordinator's process has the variable"
    finally:
        assert rollcall("down", "--data-dir", data).returncode == 0
    log = (data / "logs" / "coordinator-0.log").read_text()
    assert f"traces go {own}\n" in log
    assert f"traces go {where}\n" in log


def test_no_ray_at_an_address_is_said_in_one_sentence(tmp_path: Path) -> None:
    done = rollcall("up", "--address", "127.0.0.1:1", "--port", "0", "--data-dir", tmp_path / "d")
    assert done.returncode == ExitCode.NO_CLUSTER
    assert done.stdout == ""
    assert done.stderr == "rollcall: No Ray answers at 127.0.0.1:1.\n"


def test_an_address_that_is_none_is_said_in_one_sentence(tmp_path: Path) -> None:
    done = rollcall("up", "--address", "here", "--port", "0", "--data-dir", tmp_path / "d")
    assert done.returncode == 2
    assert done.stderr == "rollcall: --address needs auto, local or HOST:PORT, not 'here'.\n"
