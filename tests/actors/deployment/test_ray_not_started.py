"""Our own Ray is tried again if it does not start, and nothing of the first one is left."""

import os
from pathlib import Path

import pytest

from actors.cluster import processes
from actors.deployment.supervisor import RAY_STARTS_MAX
from actors.errors import ExitCode
from tests.conftest import rollcall

ONE = ("--port", "0", "--detach", "--set", "offsets.topic.num.partitions=1")

FAILING = """
import os
from pathlib import Path

from actors.cluster import ray_node

start, starts = ray_node.start, Path({starts!r})


def start_and_fail(planned):
    ray_node.start = start
    node = start(planned)
    with starts.open("a") as file:
        file.write(planned.directory + "\\n")
    if len(starts.read_text().splitlines()) <= {failures}:
        {failure}
    return node


ray_node.start = start_and_fail
"""
"""Python runs this when it starts: Ray's processes run, and then the start fails as Ray's do."""

TIMED_OUT = 'raise Exception("The current node timed out during startup.")'
KILLED = "os.kill(os.getpid(), 9)"


def started(home: Path, failure: str, failures: int) -> tuple[int, str, str, list[Path]]:
    """Run ``up``; return its exit code, what it says, and the directories of its Rays."""
    starts = home / "starts"
    program = FAILING.format(starts=str(starts), failures=failures, failure=failure)
    (home / "sitecustomize.py").write_text(program)
    path = os.pathsep.join([str(home), str(Path.cwd())])
    done = rollcall("up", *ONE, "--data-dir", home / "data", PYTHONPATH=path)
    return done.returncode, done.stdout, done.stderr, [*map(Path, starts.read_text().split())]


@pytest.mark.parametrize(
    ("failure", "said"),
    [(TIMED_OUT, "timed out during startup."), (KILLED, "its process was killed.")],
)
def test_a_ray_that_does_not_start_is_started_again(
    tmp_path: Path, failure: str, said: str
) -> None:
    code, out, err, directories = started(tmp_path, failure, failures=1)
    try:
        first, second = directories
        assert (code, out[:6]) == (ExitCode.OK, "READY "), err
        line, *_ = err.splitlines()
        assert line.startswith("rollcall: The cluster's Ray did not start; the machine may be too")
        assert line.endswith(f"{said} Start 2 of {RAY_STARTS_MAX} follows.")
        assert "Traceback" not in err
        assert not first.exists()
        assert not processes.with_environment(f"ROLLCALL_RAY_DIRECTORY={first}")
        assert second.exists()
    finally:
        down = rollcall("down", "--data-dir", tmp_path / "data")
    assert down.returncode == ExitCode.OK, down.stderr


def test_a_ray_that_never_starts_is_given_up_with_a_sentence(tmp_path: Path) -> None:
    code, out, err, directories = started(tmp_path, TIMED_OUT, failures=RAY_STARTS_MAX)
    assert (code, out) == (ExitCode.FAILURE, "")
    assert len(err.splitlines()) == len(directories) == RAY_STARTS_MAX
    assert err.splitlines()[-1].endswith(
        "too busy for it. It said: Exception: The current node timed out during startup."
    )
    for each in directories:
        assert not each.exists()
        assert not processes.with_environment(f"ROLLCALL_RAY_DIRECTORY={each}")
