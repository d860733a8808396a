"""Our own Ray cluster on this machine, without the parts that we do not use.

Ray's ``ray start --head`` also starts a dashboard server, an autoscaler and a log monitor: three
Python processes, 250 MB and two seconds. Its ``Node`` class starts only the two processes that
actors need (the global control store and the raylet), so we use that. It is not a public interface
of Ray; only this file uses it.

Ray reads its settings when it is imported, so call :func:`start` or :func:`prepare_to_connect`
before that. Only processes that have the token in its directory can connect (Ray's token
authentication).
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.cluster.processes import (
    Process,
    descendants,
    end,
    identified,
    is_alive,
    living,
    with_environment,
    with_output_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

OBJECT_STORE_BYTES: Final = 80_000_000
"""The minimum that Ray allows; we store no objects."""

STARTS_AT_A_TIME: Final = 2
"""How many processes Ray may start at a time: it is the number of CPUs."""

TOKEN_FILE: Final = "token"
PREFIX: Final = "rollcall-ray-"
MARK: Final = "ROLLCALL_RAY_DIRECTORY"
"""The environment variable that marks the processes of our Ray clusters."""

LEFTOVER_S: Final = 300.0

_QUIET: Final[Mapping[str, str]] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_worker_niceness": "0",  # ours serve clients; the default is 15
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
    "RAY_gcs_storage": "rocksdb",  # so that the control store can start again
    "RAY_gcs_rpc_server_reconnect_timeout_s": "86400",  # until then actors do without it
    "RAY_gcs_pull_resource_loads_period_milliseconds": "10000",
    "RAY_core_worker_internal_heartbeat_ms": "200",  # how soon calls to a dead actor fail
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
"""Ray's settings; most reduce polling for features that we do not use."""

STORE_PATH: Final = "RAY_gcs_storage_path"
STORE_PORT: Final = "--gcs_server_port="


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A Ray cluster of ours: its address, its directory and the processes that it needs.

    ``store`` is the one of these that is the global control store, and ``store_command`` starts it
    again. All but the directory is empty until it runs.
    """

    address: str
    directory: str
    processes: tuple[Process, ...]
    store: Process | None = None
    store_command: tuple[str, ...] = ()


def new() -> RayNode:
    """Choose the directory of a new Ray cluster, so that it can be found before it runs."""
    directory = Path(_short_temp_dir()) / f"{PREFIX}{secrets.token_hex(4)}"
    return RayNode(address="", directory=str(directory), processes=())


def start(planned: RayNode) -> RayNode:
    """Start it, and prepare this process's environment for connecting to it.

    Blocks in Ray's native code, where no signal is handled, so call it in a process that may be
    killed; :func:`stop` ends everything that it started.
    """
    _remove_leftovers()
    directory = Path(planned.directory)
    directory.mkdir(mode=0o700)
    token = directory / TOKEN_FILE
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    os.environ.update(_environment(directory))
    from ray._private.node import Node
    from ray._private.parameter import RayParams
    from ray._private.ray_constants import PROCESS_TYPE_GCS_SERVER

    class BareNode(Node):
        """A head node without the dashboard server."""

        def start_api_server(self, **_: object) -> None:
            """Start nothing."""

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    parameters = RayParams(
        num_cpus=STARTS_AT_A_TIME,
        num_gpus=0,
        object_store_memory=OBJECT_STORE_BYTES,
        gcs_server_port=0,
        no_monitor=True,
        include_log_monitor=False,  # type: ignore[arg-type]  # Ray's annotation is wrong
        include_dashboard=False,
        temp_dir=str(directory),
    )
    node = BareNode(parameters, head=True, shutdown_at_exit=False, spawn_reaper=False)
    pids = [row.process.pid for rows in node.all_processes.values() for row in rows]
    (store,) = node.all_processes[PROCESS_TYPE_GCS_SERVER]
    port = f"{STORE_PORT}{node.gcs_address.rpartition(':')[2]}"
    command = (port if word.startswith(STORE_PORT) else word for word in store.process.args)
    return replace(
        planned,
        address=node.gcs_address,
        processes=tuple(sorted(living(pids))),
        store=identified(store.process.pid),
        store_command=tuple(command),
    )


def revive(node: RayNode) -> RayNode:
    """Start the control store again if it, and nothing else, has died; return what runs then.

    Actors go on without it, but none of them is restarted. It reads what it knew from its disk.
    """
    others = [process for process in node.processes if process != node.store]
    if node.store is None or is_alive(node.store) or not all(map(is_alive, others)):
        return node
    process = subprocess.Popen(
        node.store_command,
        env={**os.environ, **_environment(Path(node.directory))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    store = identified(process.pid)
    return replace(node, processes=tuple(sorted([*others, store])), store=store)


def _environment(directory: Path) -> Mapping[str, str]:
    """Return the environment of the processes of our Ray cluster in a directory."""
    store = {STORE_PATH: str(directory / "store")}
    return {**_QUIET, **store, MARK: str(directory), **_authentication(str(directory))}


def _authentication(directory: str) -> Mapping[str, str]:
    token = str(Path(directory) / TOKEN_FILE)
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token}


def prepare_to_connect(directory: str) -> None:
    """Set the environment that authenticates this process to the Ray cluster in ``directory``."""
    os.environ.update(_authentication(directory))


def stop(node: RayNode) -> set[Process]:
    """End all its processes and remove its directory; return processes that do not end."""
    left = end(lambda: processes_in(Path(node.directory)))
    remove(Path(node.directory))
    return left


def processes_in(directory: Path) -> set[Process]:
    """Return all processes of our Ray cluster in ``directory``, and no others.

    Actors overwrite their command lines, and environments or output files may be gone, so any of
    these identifies a process: its environment, its output, or an ancestor that has one of them.
    """
    roots = with_environment(f"{MARK}={directory}") | with_output_in(directory)
    return living({pid for root, _ in roots for pid in descendants(root)})


def remove(directory: Path) -> None:
    """Remove a Ray cluster's directory."""
    shutil.rmtree(directory, ignore_errors=True)


def _remove_leftovers() -> None:
    """Remove the directories of our Ray clusters that were killed."""
    for directory in Path(_short_temp_dir()).glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            found = directory.stat()
            is_old = time.time() - found.st_mtime > LEFTOVER_S
            if found.st_uid == os.getuid() and is_old and not processes_in(directory):
                remove(directory)


def _short_temp_dir() -> str:
    """Return a temporary directory with a short path: socket paths have a limit of 107 bytes."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= 20 else "/tmp"
