"""A server under measurement, ours or Kafka's, as every benchmark sees it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.servers import processes

if TYPE_CHECKING:
    from collections.abc import Sequence

STOP_SECONDS = 30


class StartError(Exception):
    """A server could not be started; the message says why in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server: its addresses, and the processes that do its work.

    ``root`` is the process that was started; ``serving`` are the processes that hold the client
    listeners, and benchmarks count only their resources as the server's. Other processes under
    ``root`` (for Rollcall: Ray's own processes and the assignor workers) are reported separately.
    ``metrics`` is the address that Prometheus reads, if any.
    """

    name: str
    bootstrap: tuple[tuple[str, int], ...]
    root: int
    serving: tuple[int, ...]
    metrics: str = ""

    @property
    def address(self) -> tuple[str, int]:
        """The first listener; the only one of a single-node server."""
        return self.bootstrap[0]

    def cpu_seconds(self) -> float:
        """CPU time used so far by the processes that serve clients."""
        return processes.cpu_seconds(self.serving)

    def cpu_seconds_beside(self) -> float:
        """CPU time used so far by the other processes below ``root``."""
        return processes.cpu_seconds(set(processes.descendants(self.root)) - set(self.serving))

    def resident_bytes(self) -> int:
        """Resident memory of the processes that serve clients."""
        return processes.resident_bytes(self.serving)


def serving_processes(bootstrap: Sequence[tuple[str, int]]) -> tuple[int, ...]:
    """Return the processes that listen at the ``bootstrap`` addresses, each once."""
    found = [processes.listener(port) for _, port in bootstrap]
    if None in found:
        raise StartError(f"No process of ours listens on {bootstrap[found.index(None)]}.")
    return tuple(dict.fromkeys(pid for pid in found if pid is not None))


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a server by SIGTERM; then end its remaining processes by SIGKILL."""
    family = {pid: processes.started(pid) for pid in processes.descendants(process.pid)}
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    for pid, started in family.items():
        if started is not None and processes.started(pid) == started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
