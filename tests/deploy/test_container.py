"""The container file, and the script that starts a cluster beside Ray's head."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from actors.cli.main import _parser
from actors.errors import ExitCode
from tests.deploy.prune import ROOT, manifests

CONTAINER = ROOT / "deploy" / "container"
TEXT = (CONTAINER / "Containerfile").read_text()
UP = CONTAINER / "rollcall-up"


def locked(name: str) -> str:
    """Return the version of a package in the lock."""
    found = re.search(rf"^{name}==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_every_host_has_the_ray_of_the_lock() -> None:
    assert f"ARG RAY_VERSION={locked('ray')}\n" in TEXT
    (cluster,) = manifests("RayCluster")
    assert cluster["spec"]["rayVersion"] == locked("ray")


def test_the_instructions_are_known_and_what_they_copy_is_there() -> None:
    joined = TEXT.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    assert {line.split()[0] for line in lines} <= {"ARG", "FROM", "COPY", "RUN"}
    for line in lines:
        words = [word for word in line.split() if not word.startswith("--")]
        if words[0] == "COPY" and "--from" not in line:
            assert all((ROOT / source).exists() for source in words[1:-1]), line


def test_the_lock_gives_constraints_for_pip(tmp_path: Path) -> None:
    """Hashes and comments are left out: the wheel of the project has none."""
    (command,) = re.findall(r"sed --quiet '([^']+)' /tmp/requirements.lock", TEXT)
    lock = ROOT / "requirements.lock"
    made = subprocess.run(
        ["sed", "--quiet", command, lock], capture_output=True, text=True, check=True
    )
    wanted = re.findall(r"^[\w.-]+(?:\[\w+\])?==[\w.+-]+", lock.read_text(), re.MULTILINE)
    assert made.stdout.splitlines() == wanted
    assert f"ray=={locked('ray')}" in wanted


def run_up(tmp_path: Path, *codes: int) -> tuple[int, list[str]]:
    """Run the script with a ``rollcall`` that ends with these codes; return its code and calls."""
    calls, program = tmp_path / "calls", tmp_path / "rollcall"
    left = tmp_path / "codes"
    left.write_text("".join(f"{code}\n" for code in codes))
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {calls}\ncode=$(head -n 1 {left})\nsed -i 1d {left}\nexit $code\n'
    )
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run([UP], env={"PATH": path, "ROLLCALL_RETRY_S": "0"}, check=False)
    return done.returncode, calls.read_text().splitlines()


@pytest.mark.parametrize(
    ("codes", "ended", "calls"),
    [
        ([ExitCode.OK], 0, 1),
        ([ExitCode.ALREADY_RUNNING], 0, 1),
        ([ExitCode.BAD_INPUT], 2, 1),
        ([ExitCode.NO_CLUSTER, ExitCode.NO_CLUSTER, ExitCode.FAILURE, ExitCode.OK], 0, 4),
        ([ExitCode.FAILURE, ExitCode.BAD_INPUT], 2, 2),
    ],
)
def test_the_cluster_is_started_until_it_runs(
    codes: list[ExitCode], ended: int, calls: int, tmp_path: Path
) -> None:
    code, called = run_up(tmp_path, *codes)
    assert (code, len(called)) == (ended, calls)
    assert len(set(called)) == 1
    args = _parser().parse_args(called[0].split())
    assert (args.address, args.hosts, args.detach) == ("auto", 3, True)
    assert args.data_dir == Path("/var/lib/rollcall/data")
