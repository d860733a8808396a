"""Which clusters run on this machine: one small file each, so that a second shell finds them.

The file is written before anything is started and removed after everything has ended, so that
whatever kills ``rollcall up``, the next command finds what it left.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.cluster import ray_node
from actors.cluster.data_dir import write_whole
from actors.cluster.processes import POLL_S, is_alive
from actors.cluster.ray_node import RayNode
from actors.errors import BadInputError, FailureError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from actors.cluster.processes import Process

KNOCK_S: Final = 2.0
GONE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredCluster:
    """A cluster that was started here.

    ``node`` is the Ray that is started for it, None when it lives on another one at ``address``,
    to which one connects in ``auth_mode`` (Ray's own word; empty: as Ray decides). ``address`` is
    empty until an actor may have been created. ``owner`` is the ``rollcall up`` that starts it,
    or in whose foreground it runs.
    """

    cluster_id: str
    data_dir: str
    address: str
    bootstrap: str
    partitions: int
    workers: int
    node: RayNode | None
    owner: Process | None
    auth_mode: str = ""
    is_ready: bool = True

    def prepare_to_connect(self) -> None:
        """Let this process authenticate itself; to be called before Ray is imported."""
        if self.node is not None:
            ray_node.prepare_to_connect(self.node.directory)
        elif self.auth_mode:
            os.environ.setdefault("RAY_AUTH_MODE", self.auth_mode)

    @property
    def has_owner(self) -> bool:
        """Whether the ``rollcall up`` that started it, or has it in its foreground, still runs."""
        return self.owner is not None and is_alive(self.owner)

    @property
    def is_orphan(self) -> bool:
        """Whether the ``rollcall up`` that was to stop it has been killed."""
        return self.owner is not None and not is_alive(self.owner)

    @property
    def is_whole(self) -> bool:
        """Whether its Ray can be asked: without one of its processes one would wait for ever."""
        if self.node is not None:
            return bool(self.node.processes) and all(map(is_alive, self.node.processes))
        return _listens(self.address)

    @property
    def is_alive(self) -> bool:
        """Whether it runs or is being started; what is left of it otherwise is to be removed.

        What a killed start has created on another Ray lives on there, until it is taken down.
        """
        if self.has_owner and not self.is_ready:
            return True
        is_guest = self.node is None and bool(self.address)
        return (self.is_ready or is_guest) and self.is_whole


def _listens(address: str) -> bool:
    """Whether something takes connections there; True when that can not be said."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), KNOCK_S).close()
    except ConnectionRefusedError:
        return False
    except (OSError, ValueError, OverflowError):
        return bool(address)
    return True


def still_listening(cluster: RegisteredCluster) -> list[str]:
    """Return the addresses of coordinators that clients can reach after a while."""
    deadline_s = time.monotonic() + GONE_S
    while left := [one for one in cluster.bootstrap.split(",") if _listens(one)]:
        if time.monotonic() > deadline_s:
            break
        time.sleep(POLL_S)
    return left


def save(running: RegisteredCluster) -> None:
    """Make a cluster known, or what has become of it."""
    write_whole(_file(running.cluster_id), json.dumps(asdict(running), indent=2))


def load(cluster_id: str) -> RegisteredCluster | None:
    """Return what is known of a cluster; None when it is not known, or no longer."""
    return _read(_file(cluster_id))


def forget(running: RegisteredCluster) -> None:
    """Take a cluster that has ended off the list."""
    _file(running.cluster_id).unlink(missing_ok=True)


def on(data_dir: Path) -> RegisteredCluster | None:
    """Return the cluster of a data directory."""
    wanted = str(data_dir.absolute())
    return next((one for one in _known() if one.data_dir == wanted and one.is_alive), None)


def find(data_dir: Path | None, usual: Path) -> RegisteredCluster | None:
    """Return the cluster of ``data_dir``; without one, the one of ``usual`` or the only one.

    Removes first what clusters have left that were killed.
    """
    remove_leftovers()
    if data_dir is not None:
        found = on(data_dir)
        if found is None:
            raise FailureError(f"No cluster runs on {data_dir}.")
        return found
    if (found := on(usual)) is not None:
        return found
    clusters = [one for one in _known() if one.is_alive]
    if len(clusters) > 1:
        names = ", ".join(cluster.data_dir for cluster in clusters)
        raise BadInputError(f"Several clusters run here: choose one by --data-dir ({names}).")
    return clusters[0] if clusters else None


def remove_leftovers() -> list[RegisteredCluster]:
    """End what is left of clusters that were killed, remove their files, and return them."""
    dead = [one for one in _known() if not one.is_alive]
    for one in dead:
        kill_cluster(one)
    return dead


def kill_cluster(cluster: RegisteredCluster) -> None:
    """Kill every process of a cluster's own Ray; raise FailureError when one does not end.

    Actors on another Ray than its own can only be ended through that Ray, and go with it.
    """
    left = ray_node.stop(cluster.node) if cluster.node is not None else ()
    if left:
        raise FailureError(
            f"The cluster of {cluster.data_dir} is not gone: {_named(left)} still there. "
            "Run `rollcall down` again."
        )
    forget(cluster)


def _named(processes: Collection[Process]) -> str:
    pids = ", ".join(str(pid) for pid, _ in sorted(processes))
    return f"process {pids} is" if len(processes) == 1 else f"processes {pids} are"


def _known() -> Iterator[RegisteredCluster]:
    for file in sorted(_directory().glob("[!.]*.json")):
        if (found := _read(file)) is not None:
            yield found


def _read(file: Path) -> RegisteredCluster | None:
    try:
        row = json.loads(file.read_text())
        node = row["node"] and RayNode(
            **{**row["node"], "processes": tuple(map(tuple, row["node"]["processes"]))}
        )
        owner = row["owner"] and tuple(row["owner"])
        return RegisteredCluster(**{**row, "node": node, "owner": owner})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _file(cluster_id: str) -> Path:
    return _directory() / f"{cluster_id}.json"


def _directory() -> Path:
    """Return a directory of this user's that only this user can write."""
    directory = Path(tempfile.gettempdir()) / f"rollcall-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise FailureError(f"{directory} belongs to another user: remove it.")
    return directory
