"""Starts and stops our own Rollcall cluster, as a user would: ``rollcall up``."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.cli.discovery import PARENT_VARIABLE
from bench.client.cluster_client import addresses_in
from bench.servers.server import Server, StartError, serving_processes, stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

START_SECONDS: Final = 240
READY: Final = re.compile(r"^READY bootstrap=(?P<bootstrap>\S+)", re.MULTILINE)
CONSOLE: Final = re.compile(r"console=(?P<console>http\S+)")
ONE_COORDINATOR: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.flush": "os",
}
"""The counterpart of a single-node Kafka: one partition, one replica, no wait for the disk."""


@contextlib.contextmanager
def running_rollcall(
    overrides: Mapping[str, str],
    data_dir: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Start a cluster, yield it once READY, and stop it at the end.

    Without a ``data_dir`` it gets a temporary directory, which is removed with it. ``environ`` are
    its environment variables, if they are not ours.
    """
    directory = Path(tempfile.mkdtemp(prefix="rollcall-bench-"))
    data_dir = data_dir or directory / "data"
    try:
        with (directory / "up.log").open("wb") as log:
            process = subprocess.Popen(
                command(["up", "--port", "0", "--data-dir", str(data_dir)], overrides),
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for this process, which stops the cluster
                env={
                    **(os.environ if environ is None else environ),
                    PARENT_VARIABLE: str(os.getpid()),
                },
            )
        try:
            ready = _first_line(process, directory / "up.log")
            bootstrap, console = parse_ready(ready), CONSOLE.search(ready)
            yield Server(
                name="rollcall",
                bootstrap=bootstrap,
                root=process.pid,
                serving=serving_processes(bootstrap),
                metrics=f"{console['console']}/metrics" if console else "",
            )
        finally:
            stop(process)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def command(arguments: Sequence[str], overrides: Mapping[str, str] | None = None) -> list[str]:
    """Return the command line of ``rollcall``, run by this Python."""
    settings = [part for item in (overrides or {}).items() for part in ("--set", "=".join(item))]
    return [sys.executable, "-m", "rollcall", *arguments, *settings]


def parse_ready(text: str) -> tuple[tuple[str, int], ...]:
    """Return the bootstrap addresses of the READY line in ``text``."""
    ready = READY.search(text)
    if ready is None:
        raise StartError(f"The cluster did not say READY but: {text.strip() or 'nothing'}")
    return tuple(addresses_in(ready["bootstrap"]))


def call(arguments: Sequence[str]) -> str:
    """Run a ``rollcall`` command to its end and return its output."""
    done = subprocess.run(command(arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise StartError(f"rollcall {arguments[0]} failed: {said[-1]}")
    return done.stdout


def _first_line(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None
    output = process.stdout.fileno()
    deadline = time.monotonic() + START_SECONDS
    said = b""
    while b"READY" not in said or not said.endswith(b"\n"):
        left = deadline - time.monotonic()
        readable, _, _ = select.select([output], [], [], max(left, 0))
        piece = os.read(output, 4096) if readable else b""
        if not piece:
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise StartError(f"rollcall up did not get READY: {' '.join(last) or said.decode()}")
        said += piece
    return said.decode()
