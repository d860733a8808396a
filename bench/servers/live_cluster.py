"""A running cluster as a drill sees it: its status, and the faults that can be injected.

Processes are found in the cluster's own status and get real signals. Only to cut a node off from
its peers, the node itself is called.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cluster.ray_calls import CallError, answer, find
from actors.cluster.ray_peers import assignor_name, coordinator_name
from actors.deployment import actors
from actors.errors import CommandError
from bench.client.cluster_client import ASK_S, POLL_S, ClusterClient, addresses_in
from bench.servers import processes
from bench.servers.condition import holds
from failover.drills.checked import DrillError
from failover.drills.drill import Condition, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from actors.cluster.registry import RegisteredCluster

SMALL_DISK_BYTES: Final = 1 << 30
"""A file system up to this size may be filled; a larger one is a real disk."""
WARM_UP_S: Final = 180.0
FILLER: Final = "filler"
FILLER_PIECE_BYTES: Final = 1 << 20


class LiveCluster(ClusterClient):
    """A cluster of this machine; use it from a process that is connected to its Ray."""

    def __init__(self, found: RegisteredCluster) -> None:
        self.data_dir = Path(found.data_dir)
        super().__init__(addresses_in(found.bootstrap))
        self._pids: dict[int, int] = {}
        self._dead: set[int] = set()
        self._frozen: set[int] = set()
        self._has_slow_disk = False

    # --- its state

    def status(self) -> dict[str, Any] | None:
        """Return the cluster's status, or None while it is unavailable."""
        try:
            status = actors.status()
        except (CommandError, CallError):
            return None
        for row in status["coordinators"]:
            if row["pid"] is not None:
                self._pids[row["node_id"]] = row["pid"]
        return status

    def is_led(self) -> bool:
        """Whether every node serves and every partition has a leader."""
        status = self.status()
        return status is not None and holds(status, Condition.LED, self._dead)

    def is_replicated(self) -> bool:
        """Whether, in addition, every replica is in sync."""
        status = self.status()
        return status is not None and holds(status, Condition.REPLICATED, self._dead)

    def warm_up(self) -> None:
        """Wait until every assignor worker can run at once; a busy machine takes long for it."""
        for number in itertools.count():
            handle = find(assignor_name(number))
            if handle is None:
                return
            try:
                answer(handle.warm_up.remote(), WARM_UP_S)
            except CallError as error:
                raise DrillError(f"Assignor {number} did not get ready: {error}") from None

    def find(self, target: Target, group_id: str) -> tuple[int, ...]:
        """Return the nodes that ``target`` means now; ``group_id`` determines the leader.

        This uses client requests and not the controller, which may just have been killed.
        """
        if target is Target.ALL:
            return self.nodes
        leader = self.bootstrap.index(self.coordinator(group_id))
        others = [node_id for node_id in self.nodes if node_id != leader]
        beside = len(self.nodes) // 2 if target is Target.MAJORITY else 0
        return (leader, *others[:beside])

    # --- faults

    def kill(self, node_ids: Iterable[int]) -> list[int]:
        """``kill -9``, all at once; return the process ids."""
        pids = [self._pids[node_id] for node_id in node_ids]
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        self._dead.update(pids)
        return pids

    def kill_controller(self) -> int:
        """``kill -9`` of the controller, as it is now."""
        status = self.status()
        if status is None:
            raise DrillError("The controller is not there: it does not answer.")
        pid: int = status["controller"]["pid"]
        _signal(pid, signal.SIGKILL)
        return pid

    def freeze(self, node_ids: Iterable[int]) -> list[int]:
        """Send SIGSTOP."""
        pids = [self._pids[node_id] for node_id in node_ids]
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        self._frozen.update(pids)
        return pids

    def thaw(self) -> None:
        """Send SIGCONT to every frozen process."""
        for pid in self._frozen:
            with contextlib.suppress(DrillError):
                _signal(pid, signal.SIGCONT)
        self._frozen.clear()

    def lose_disk(self, node_ids: Iterable[int]) -> list[int]:
        """Kill nodes and delete their data, before anything can restart on it."""
        pids = self.freeze(node_ids)
        for node_id in node_ids:
            directory = self.data_dir / f"node-{node_id}"
            directory.rename(lost := self.data_dir / f"node-{node_id}.lost")
            self.kill([node_id])
            shutil.rmtree(lost, ignore_errors=True)
        self._frozen.difference_update(pids)
        return pids

    def cut(self, node_ids: Sequence[int]) -> None:
        """Cut nodes off from all others; their clients still reach them."""
        for node_id in node_ids:
            others = [other for other in self.nodes if other not in node_ids]
            self._call(node_id, "cut", others)

    def mend(self) -> None:
        """End every cut."""
        for node_id in self.nodes:
            self._call(node_id, "mend")

    def roll(self, node_id: int, within_ms: int) -> None:
        """Drain one node, end its process and wait until everything is in sync again."""
        actors.drain(str(node_id))
        self.status()
        pid = self._pids[node_id]
        _signal(pid, signal.SIGTERM)
        self._dead.add(pid)
        time.sleep(POLL_S)
        if processes.started(pid) is not None:
            _signal(pid, signal.SIGKILL)
        self.wait(self.is_replicated, within_ms, f"replicated after node {node_id} restarted")

    def fill_disk(self, node_ids: Iterable[int]) -> int:
        """Fill the nodes' small file systems; return how many bytes that took.

        A larger one is a real disk and is left alone.
        """
        size = 0
        for node_id in node_ids:
            directory = self.data_dir / f"node-{node_id}"
            if shutil.disk_usage(directory).total > SMALL_DISK_BYTES:
                raise DrillError(
                    f"{directory} is not on a small file system of its own: let the drill start "
                    "its own cluster, as a user that may mount one."
                )
            size += _fill(directory / FILLER)
        return size

    def free_disk(self) -> None:
        """Free the space."""
        for node_id in self.nodes:
            (self.data_dir / f"node-{node_id}" / FILLER).unlink(missing_ok=True)

    def slow_disk(self, node_ids: Iterable[int], sync_ms: int) -> None:
        """Delay each sync of these nodes by this long; 0: no delay."""
        for node_id in node_ids:
            self._call(node_id, "slow_disk", sync_ms)
        self._has_slow_disk = sync_ms > 0

    @contextlib.contextmanager
    def left_whole(self) -> Iterator[None]:
        """Thaw, mend and free at the end, also after an error."""
        try:
            yield
        finally:
            self.thaw()
            self.free_disk()
            if self._has_slow_disk:
                with contextlib.suppress(DrillError):
                    self.slow_disk(self.nodes, 0)

    def _call(self, node_id: int, method: str, *arguments: object) -> None:
        handle = find(coordinator_name(node_id))
        if handle is None:
            raise DrillError(f"Coordinator {node_id} is not there.")
        try:
            answer(getattr(handle, method).remote(*arguments), ASK_S)
        except CallError as error:
            raise DrillError(f"Coordinator {node_id} could not {method}: {error}") from None


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise DrillError(f"Process {pid} is not there any more.") from None


def _fill(path: Path) -> int:
    """Write zeros until the disk is full; return how many bytes."""
    piece = bytes(FILLER_PIECE_BYTES)
    with path.open("wb", buffering=0) as file:
        while piece:
            try:
                file.write(piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece = piece[: len(piece) // 2]
        return file.tell()
