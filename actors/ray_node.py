"""A Ray of our own on this machine, with everything turned off that we do not use.

Ray's ``ray start --head`` also starts a dashboard server, an autoscaler and a log monitor: three
Python processes, 250 MB and two seconds. Its own ``Node`` class starts the two processes that
actors need (the global control store and the raylet) and nothing else, so we use that. It is not a
public interface of Ray: this file is the only one that touches it.

Ray reads its settings when it is imported: :func:`start` and :func:`prepare_to_connect` come first.

The Ray is ours alone: who has not the token in its directory can not connect (Ray's own token
authentication).
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

OBJECT_STORE_BYTES: Final = 80_000_000
"""Ray's smallest; nothing of ours is put there."""

STARTS_AT_A_TIME: Final = 2
"""How many processes Ray may start at the same moment: it counts CPUs, of which ours ask none."""

TOKEN_FILE: Final = "token"
PREFIX: Final = "rollcall-ray-"
LEFTOVER_S: Final = 300.0
TERM_S: Final = 0.5
KILL_S: Final = 5.0

_QUIET: Final[Mapping[str, str]] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_worker_niceness": "0",  # ours serve clients; by default they stand back (15)
    "RAY_enable_metrics_collection": "0",
    "RAY_enable_timeline": "0",
    "RAY_event_stats": "0",
    "RAY_event_stats_print_interval_ms": "0",
    "RAY_debug_dump_period_milliseconds": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_metrics_report_interval_ms": "600000",
    "RAY_ray_events_report_interval_ms": "600000",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_raylet_check_gc_period_milliseconds": "10000",
    "RAY_raylet_liveness_self_check_interval_ms": "10000",
    "RAY_raylet_report_resources_period_milliseconds": "2000",
    "RAY_gcs_pull_resource_loads_period_milliseconds": "10000",
    "RAY_core_worker_internal_heartbeat_ms": "200",  # by it, calls to the dead fail
    "RAY_object_manager_timer_freq_ms": "10000",
    "RAY_object_timeout_milliseconds": "10000",
    "RAY_free_objects_period_milliseconds": "10000",
    "RAY_report_worker_backlog_interval_ms": "10000",
    "RAY_local_fs_monitor_interval_ms": "60000",
    "RAY_io_context_event_loop_lag_collection_interval_ms": "0",
    "RAY_io_context_monitor_probe_interval_ms": "60000",
    "RAY_io_context_monitor_latency_window_ms": "600000",
    "RAY_grpc_client_check_connection_status_interval_milliseconds": "30000",
    "RAY_start_python_gc_manager_thread": "0",
    "RAY_timeout_ms_task_wait_for_death_info": "100",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",
}
"""Ray's own settings, nearly all of them about how often it looks at what we have not got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A running Ray of ours: where it is and its first processes, each with its start time."""

    address: str
    directory: str
    processes: tuple[tuple[int, int], ...]


def start() -> RayNode:
    """Start it; the caller's environment is prepared for connecting to it."""
    _remove_leftovers()
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_short_temp_dir()))
    token = directory / TOKEN_FILE
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    os.environ.update(_QUIET)
    prepare_to_connect(str(directory))
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    class BareNode(Node):
        """A head node without the dashboard's server."""

        def start_api_server(self, **_: object) -> None:
            """Do not."""

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    parameters = RayParams(
        num_cpus=STARTS_AT_A_TIME,
        num_gpus=0,
        object_store_memory=OBJECT_STORE_BYTES,
        gcs_server_port=0,
        no_monitor=True,
        include_log_monitor=False,  # type: ignore[arg-type]  # a bool, whatever Ray says
        include_dashboard=False,
        temp_dir=str(directory),
    )
    try:
        node = BareNode(parameters, head=True, shutdown_at_exit=False, spawn_reaper=False)
    except BaseException:
        stop_processes(told_of(directory))
        remove(directory)
        raise
    pids = [row.process.pid for rows in node.all_processes.values() for row in rows]
    return RayNode(address=node.gcs_address, directory=str(directory), processes=_identified(pids))


def prepare_to_connect(directory: str) -> None:
    """Let this process authenticate itself to the Ray in ``directory``."""
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(Path(directory) / TOKEN_FILE)


def stop(node: RayNode) -> None:
    """End every process of it and remove its directory."""
    stop_processes(node.processes)
    remove(Path(node.directory))


def remove(directory: Path) -> None:
    """Remove what a Ray has left on the disk."""
    shutil.rmtree(directory, ignore_errors=True)


def stop_processes(roots: Sequence[tuple[int, int]]) -> None:
    """End these processes and all that they started; who does not listen is killed.

    Nothing of Ray's own is worth waiting for: our actors are gone by now.
    """
    alive = [process for process in roots if is_alive(process)]
    family = [*alive, *_identified(_descendants(pid for pid, _ in alive))]
    for how, wait_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        for pid, _ in filter(is_alive, family):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        if wait_gone(family, wait_s):
            return


def wait_gone(processes: Sequence[tuple[int, int]], wait_s: float) -> bool:
    """Wait until none of them is alive; False when one still is."""
    deadline_s = time.monotonic() + wait_s
    while any(map(is_alive, processes)):
        if time.monotonic() > deadline_s:
            return False
        _reap()
        time.sleep(0.02)
    return True


def is_alive(process: tuple[int, int]) -> bool:
    """Say whether a process, by its id and start time, still runs."""
    return started(process[0]) == process[1]


def started(pid: int) -> int | None:
    """Return when a process began, in kernel ticks; None when it is gone."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def identified(pid: int) -> tuple[int, int]:
    """Return a living process's id and start time."""
    return pid, started(pid) or 0


def _identified(pids: Iterable[int]) -> tuple[tuple[int, int], ...]:
    return tuple((pid, began) for pid in pids if (began := started(pid)) is not None)


def _descendants(roots: Iterable[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    first = list(roots)
    found = list(first)
    for pid in found:
        found.extend(children.get(pid, ()))
    return found[len(first) :]


def _remove_leftovers() -> None:
    """Remove the directories of our Rays that were killed and could not do it themselves."""
    for directory in Path(_short_temp_dir()).glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            found = directory.stat()
            is_old = time.time() - found.st_mtime > LEFTOVER_S
            if found.st_uid == os.getuid() and is_old and not told_of(directory):
                remove(directory)


def told_of(directory: Path) -> tuple[tuple[int, int], ...]:
    """Return the processes on whose command line ``directory`` stands."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and bytes(directory) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return _identified(found)


def _reap() -> None:
    """Take leave of our own dead children."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _short_temp_dir() -> str:
    """Return a directory for sockets, whose paths may have 107 characters in all."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= 20 else "/tmp"
