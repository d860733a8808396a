"""Finds the cluster of a command: by data directory, by Ray, or the one of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cluster import registry
from actors.errors import FailureError, NoClusterError, NoRayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.cluster.registry import RegisteredCluster

DEFAULT_DATA_DIR: Final = Path("rollcall-data")
DATA_DIR_VARIABLE: Final = "ROLLCALL_DATA_DIR"
PARENT_VARIABLE: Final = "ROLLCALL_PARENT"
"""The id of the process with which ``rollcall up`` ends, even if that process is killed."""

AUTO: Final = "auto"


def default_data_dir() -> Path:
    """Return the data directory to use if none is given."""
    return Path(os.environ.get(DATA_DIR_VARIABLE) or DEFAULT_DATA_DIR)


def find_cluster(
    data_dir: Path | None = None, address: str | None = None, *, is_ready: bool = True
) -> RegisteredCluster:
    """Find a running cluster: by its data directory, on a given Ray, or the one of this machine.

    ``is_ready``: it must have started. Raises CommandError if there is none.
    """
    if address is None:
        found = registry.find(data_dir, default_data_dir())
        if found is not None:
            if is_ready and not found.is_ready:
                raise FailureError(
                    f"The cluster of {found.data_dir} is still starting."
                    if found.has_owner
                    else f"The start of the cluster of {found.data_dir} was killed: "
                    "run `rollcall down` to remove what is left."
                )
            return found
    return _on_ray(address or AUTO, tell_address=address is not None)


def _on_ray(address: str, *, tell_address: bool) -> RegisteredCluster:
    from actors.deployment import actors

    try:
        with actors.connected(address):
            spec = actors.running_spec()
    except NoRayError:
        if tell_address:
            raise
        raise NoClusterError(
            "No Rollcall cluster is running on this machine. Start one with `rollcall up`."
        ) from None
    return registry.RegisteredCluster(
        cluster_id=spec.cluster_id,
        data_dir=spec.data_dir,
        address=address,
        bootstrap=spec.bootstrap,
        console=f"http://{spec.console}",
        partitions=spec.partitions,
        workers=spec.workers,
        node=None,
        owner=None,
    )


def call_cluster(found: RegisteredCluster, question: Callable[[], Any]) -> Any:
    """Call ``question`` while connected to the Ray of a cluster."""
    found.prepare_to_connect()
    from actors.deployment import actors

    with actors.connected(found.address):
        return question()


def read_status(found: RegisteredCluster) -> dict[str, Any]:
    """Return the status of a running cluster."""

    def question() -> dict[str, Any]:
        from actors.deployment import actors

        return actors.status()

    status: dict[str, Any] = call_cluster(found, question)
    return status
