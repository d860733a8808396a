"""Which clusters run on this machine: one small file each, so that a second shell finds them."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from actors.errors import BadInputError, FailureError
from actors.ray_node import RayNode, prepare_to_connect, remove, started

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A cluster that was started here.

    ``node`` is the Ray that was started for it, None when it lives on somebody else's at
    ``address``, to which one connects in ``auth_mode`` (Ray's own word; empty: as Ray decides).
    ``owner`` is the ``rollcall up`` in the foreground, and when it began.
    """

    cluster_id: str
    data_dir: str
    address: str
    bootstrap: str
    partitions: int
    workers: int
    node: RayNode | None
    owner: tuple[int, int] | None
    auth_mode: str = ""

    def prepare_to_connect(self) -> None:
        """Let this process authenticate itself; to be called before Ray is imported."""
        if self.node is not None:
            prepare_to_connect(self.node.directory)
        elif self.auth_mode:
            os.environ.setdefault("RAY_AUTH_MODE", self.auth_mode)

    @property
    def is_alive(self) -> bool:
        """Whether its Ray, if that is ours, still runs."""
        if self.node is None:
            return True
        return any(started(pid) == began for pid, began in self.node.processes)


def save(running: Running) -> None:
    """Make a cluster known."""
    _file(running.cluster_id).write_text(json.dumps(asdict(running), indent=2))


def forget(running: Running) -> None:
    """Take a cluster that has ended off the list."""
    _file(running.cluster_id).unlink(missing_ok=True)


def find(data_dir: Path | None, usual: Path) -> Running | None:
    """Return the cluster of ``data_dir``; without one, the one of ``usual`` or the only one."""
    clusters = list(_alive())
    for wanted in (data_dir, usual):
        for cluster in clusters:
            if wanted is not None and Path(cluster.data_dir) == wanted.absolute():
                return cluster
        if wanted is data_dir and data_dir is not None:
            raise FailureError(f"No cluster runs on {data_dir}.")
    if len(clusters) > 1:
        names = ", ".join(cluster.data_dir for cluster in clusters)
        raise BadInputError(f"Several clusters run here: choose one by --data-dir ({names}).")
    return clusters[0] if clusters else None


def _alive() -> Iterator[Running]:
    for file in sorted(_directory().glob("*.json")):
        try:
            row = json.loads(file.read_text())
            node = row["node"] and RayNode(
                **{**row["node"], "processes": tuple(map(tuple, row["node"]["processes"]))}
            )
            owner = row["owner"] and tuple(row["owner"])
            running = Running(**{**row, "node": node, "owner": owner})
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if running.is_alive:
            yield running
        else:
            file.unlink(missing_ok=True)
            if running.node is not None:
                remove(Path(running.node.directory))


def _file(cluster_id: str) -> Path:
    return _directory() / f"{cluster_id}.json"


def _directory() -> Path:
    """Return a directory of this user's that only this user can write."""
    directory = Path(tempfile.gettempdir()) / f"rollcall-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise FailureError(f"{directory} belongs to another user: remove it.")
    return directory
