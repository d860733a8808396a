"""The clusters that run on this machine: a file for each, so that other commands find them.

The file is written before anything is started and removed after everything has ended. So even if
``rollcall up`` is killed, the next command finds what it left.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import operator
import os
import socket
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cluster import ray_node
from actors.cluster.data_dir import write_whole
from actors.cluster.processes import is_alive
from actors.cluster.ray_node import RayNode
from actors.errors import BadInputError, FailureError, NoClusterError
from actors.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from actors.cluster.processes import Process

KNOCK_S: Final = 2.0
GONE_S: Final = 5.0
LOCK_FILE: Final = "lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredCluster:
    """A cluster that was started on this machine.

    ``node`` is the Ray cluster that was started for it; None if it runs on another one at
    ``address``, to which processes connect in ``auth_mode`` (RAY_AUTH_MODE; empty: Ray's default).
    ``address`` is empty until an actor may exist; so is what the cluster's plan decides, if other
    hosts must be asked for it. ``owner`` is the ``rollcall up`` process that
    starts it, or in whose foreground it runs.
    """

    data_dir: str
    address: str
    node: RayNode | None
    owner: Process | None
    cluster_id: str = ""
    bootstrap: str = ""
    console: str = ""
    partitions: int = 0
    workers: int = 0
    auth_mode: str = ""
    is_ready: bool = True

    def prepare_to_connect(self) -> None:
        """Set this process's authentication environment; call it before Ray is imported."""
        if self.node is not None:
            ray_node.prepare_to_connect(self.node.directory)
        elif self.auth_mode:
            os.environ.setdefault("RAY_AUTH_MODE", self.auth_mode)

    @property
    def has_owner(self) -> bool:
        """Whether the ``rollcall up`` that starts it, or runs it in its foreground, is running."""
        return self.owner is not None and is_alive(self.owner)

    @property
    def is_orphan(self) -> bool:
        """Whether the ``rollcall up`` that would stop it was killed."""
        return self.owner is not None and not is_alive(self.owner)

    @property
    def is_whole(self) -> bool:
        """Whether all of its Ray's processes run; otherwise calls would block forever."""
        if self.node is not None:
            return bool(self.node.processes) and all(map(is_alive, self.node.processes))
        return _listens(self.address)

    @property
    def is_alive(self) -> bool:
        """Whether it runs or is being started; otherwise its remains may be removed.

        Actors that a killed start created on another Ray stay there until ``rollcall down``.
        """
        if self.has_owner and not self.is_ready:
            return True
        is_guest = self.node is None and bool(self.address)
        return (self.is_ready or is_guest) and self.is_whole


def _listens(address: str) -> bool:
    """Whether something accepts connections there; True if that is unknown."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
    except ConnectionRefusedError:
        return False
    except (OSError, ValueError, OverflowError):
        return bool(address)
    return True


def still_listening(cluster: RegisteredCluster) -> list[str]:
    """Wait for the listeners to close; return the addresses that are still open."""
    return poll(
        lambda: [one for one in cluster.bootstrap.split(",") if _listens(one)],
        GONE_S,
        is_done=operator.not_,
    )


def save(running: RegisteredCluster) -> None:
    """Write a cluster's file."""
    write_whole(_file(running.data_dir), json.dumps(asdict(running), indent=2))


def load(data_dir: str) -> RegisteredCluster | None:
    """Return the cluster that was started on a data directory; None if it is not registered."""
    return _read(_file(data_dir))


def forget(running: RegisteredCluster) -> None:
    """Remove a cluster's file."""
    _file(running.data_dir).unlink(missing_ok=True)


def on(data_dir: Path) -> RegisteredCluster | None:
    """Return the cluster that runs on a data directory; None if there is none."""
    wanted = str(data_dir.absolute())
    return next((one for one in _known() if one.data_dir == wanted and one.is_alive), None)


def find(data_dir: Path | None, usual: Path) -> RegisteredCluster | None:
    """Return the cluster of ``data_dir``; if that is None, the one of ``usual`` or the only one.

    First removes what killed clusters left.
    """
    remove_leftovers()
    if data_dir is not None:
        found = on(data_dir)
        if found is None:
            raise NoClusterError(f"No cluster is running on {data_dir}.")
        return found
    if (found := on(usual)) is not None:
        return found
    clusters = [one for one in _known() if one.is_alive]
    if len(clusters) > 1:
        names = ", ".join(cluster.data_dir for cluster in clusters)
        raise BadInputError(f"Several clusters are running: choose one with --data-dir ({names}).")
    return clusters[0] if clusters else None


def remove_leftovers() -> list[RegisteredCluster]:
    """End what killed clusters left, remove their files, and return them."""
    dead = [one for one in _known() if not one.is_alive]
    for one in dead:
        kill_cluster(one)
    return dead


def kill_cluster(cluster: RegisteredCluster) -> None:
    """Kill all processes of a cluster's own Ray; raise FailureError if one does not end.

    Actors on another Ray can only be stopped through that Ray, or end with it.
    """
    left = ray_node.stop(cluster.node) if cluster.node is not None else ()
    if left:
        raise FailureError(
            f"The cluster of {cluster.data_dir} did not stop: {_named(left)} still running. "
            "Run `rollcall down` again."
        )
    forget(cluster)


def _named(processes: Collection[Process]) -> str:
    pids = ", ".join(str(pid) for pid, _ in sorted(processes))
    return f"process {pids} is" if len(processes) == 1 else f"processes {pids} are"


def _known() -> Iterator[RegisteredCluster]:
    for file in sorted(_directory().glob("[!.]*.json")):
        if (found := _read(file)) is not None:
            yield revived(found)


def revived(cluster: RegisteredCluster) -> RegisteredCluster:
    """Return a cluster whose own Ray has its control store again, if that alone had died."""
    if cluster.node is None or not cluster.is_ready or cluster.is_whole:
        return cluster
    try:
        lock = (Path(cluster.node.directory) / LOCK_FILE).open("a")
    except OSError:  # it is gone
        return cluster
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several commands, one starts it
        cluster = load(cluster.data_dir) or cluster
        if cluster.node is None or (node := ray_node.revive(cluster.node)) == cluster.node:
            return cluster
        cluster = replace(cluster, node=node)
        save(cluster)
        return cluster


def _read(file: Path) -> RegisteredCluster | None:
    try:
        row = json.loads(file.read_text())
        node = row["node"] and _ray_node(row["node"])
        owner = row["owner"] and tuple(row["owner"])
        return RegisteredCluster(
            **{**_known_to(RegisteredCluster, row), "node": node, "owner": owner}
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _ray_node(row: dict[str, Any]) -> RayNode:
    lists = {
        "processes": tuple(map(tuple, row["processes"])),
        "store": row["store"] and tuple(row["store"]),
        "store_command": tuple(row["store_command"]),
    }
    return RayNode(**{**_known_to(RayNode, row), **lists})


def _known_to(kind: type[RegisteredCluster | RayNode], row: dict[str, Any]) -> dict[str, Any]:
    """Return what this version knows: a later one, which was replaced, may have written more."""
    return {field.name: row[field.name] for field in fields(kind) if field.name in row}


def _file(data_dir: str) -> Path:
    return _directory() / f"{hashlib.sha256(data_dir.encode()).hexdigest()[:32]}.json"


def _directory() -> Path:
    """Return a directory that only this user can write."""
    directory = Path(tempfile.gettempdir()) / f"rollcall-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise FailureError(f"{directory} belongs to another user: remove it.")
    return directory
