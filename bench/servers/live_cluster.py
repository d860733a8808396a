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
import sys
import threading
import time
from collections import Counter
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

CutOff = tuple[int, "int | None"]
"""A node that is cut off, and its process; None: that is not known."""


class LiveCluster(ClusterClient):
    """A cluster of this machine; use it from a process that is connected to its Ray."""

    def __init__(self, found: RegisteredCluster) -> None:
        self.data_dir = Path(found.data_dir)
        super().__init__(addresses_in(found.bootstrap))
        self._pids: dict[int, int] = {}
        self._dead: set[int] = set()
        self._lock = threading.Lock()
        self._frozen: Counter[int] = Counter()
        self._cut: Counter[CutOff] = Counter()
        self._slow: dict[int, None] = {}

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

    # --- faults; what must end again is remembered before it begins

    def kill(self, node_ids: Iterable[int]) -> list[int]:
        """``kill -9``, all at once; return the process ids."""
        pids = [self._pids[node_id] for node_id in node_ids]
        self._dead.update(pids)
        for pid in pids:
            _signal(pid, signal.SIGKILL)
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
            with self._lock:
                self._frozen[pid] += 1
            try:
                _signal(pid, signal.SIGSTOP)
            except DrillError:
                self._over(self._frozen, [pid])
                raise
        return pids

    def thaw(self, pids: Iterable[int] | None = None) -> None:
        """End one freeze of each process; of every frozen process all of them, without ``pids``.

        A process gets SIGCONT when no other freeze of it goes on.
        """
        for pid in self._over(self._frozen, pids):
            with contextlib.suppress(DrillError):
                _signal(pid, signal.SIGCONT)

    def lose_disk(self, node_ids: Iterable[int]) -> list[int]:
        """Kill nodes and delete their data, before anything can restart on it."""
        pids = self.freeze(node_ids)
        for node_id in node_ids:
            directory = self.data_dir / f"node-{node_id}"
            directory.rename(lost := self.data_dir / f"node-{node_id}.lost")
            self.kill([node_id])
            shutil.rmtree(lost, ignore_errors=True)
        self._over(self._frozen, pids)
        return pids

    def cut(self, node_ids: Sequence[int]) -> list[CutOff]:
        """Cut nodes off from all others; their clients still reach them. Return what to mend."""
        cuts = [(node_id, self._pids.get(node_id)) for node_id in node_ids]
        for node_id, pid in cuts:
            others = [other for other in self.nodes if other not in node_ids]
            with self._lock:
                self._cut[node_id, pid] += 1
            self._call(node_id, "cut", others)
        return cuts

    def mend(self, cuts: Iterable[CutOff] | None = None) -> None:
        """End these cuts; without ``cuts``, every one.

        A node is called when no other cut of it goes on. If nodes cannot be called, the others are
        mended before DrillError is raised of the first; it is tried again by the next call.
        """
        failures = []
        for node_id, pid in self._over(self._cut, cuts):
            if _has_ended(pid):
                continue  # and the cut with it
            try:
                self._call(node_id, "mend")
            except DrillError as error:
                if _has_ended(pid):
                    continue
                with self._lock:
                    self._cut[node_id, pid] += 1
                failures.append(error)
        if failures:
            raise failures[0]

    def roll(self, node_id: int, within_ms: int) -> None:
        """Restart one node as :meth:`restart` does, and wait until all is in sync again."""
        self.restart(node_id)
        self.wait(self.is_replicated, within_ms, f"replicated after node {node_id} restarted")

    def restart(self, node_id: int) -> None:
        """Drain one node and end its process; Ray restarts it, which is not waited for."""
        actors.drain(str(node_id))
        self.status()
        pid = self._pids[node_id]
        _signal(pid, signal.SIGTERM)
        self._dead.add(pid)
        time.sleep(POLL_S)
        if processes.started(pid) is not None:
            with contextlib.suppress(DrillError):
                _signal(pid, signal.SIGKILL)

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
            self._slow[node_id] = None
            self._call(node_id, "slow_disk", sync_ms)
            if not sync_ms:
                del self._slow[node_id]

    @contextlib.contextmanager
    def left_whole(self) -> Iterator[None]:
        """Thaw, mend and free at the end, also after an error; say what cannot be ended."""
        with contextlib.ExitStack() as ends:
            ends.callback(self._fast_disks)
            ends.callback(self.free_disk)
            ends.callback(self._mend_last)
            ends.callback(self.thaw)
            yield

    def _mend_last(self) -> None:
        try:
            self.mend()
        except DrillError as error:
            _tell_left(f"{error} It is cut off from its peers until it restarts.")

    def _fast_disks(self) -> None:
        for node_id in list(self._slow):
            try:
                self.slow_disk([node_id], 0)
            except DrillError as error:
                _tell_left(f"{error} Its disk stays slow until it restarts.")

    def _over(self, begun: Counter[Any], ends: Iterable[Any] | None) -> list[Any]:
        """Forget what ends, or everything (None); return of what nothing else goes on."""
        with self._lock:
            if ends is None:
                over = list(begun)
                begun.clear()
                return over
            over = []
            for each in ends:
                if each in begun:
                    begun[each] -= 1
                    if not begun[each]:
                        del begun[each]
                        over.append(each)
            return over

    def _call(self, node_id: int, method: str, *arguments: object) -> None:
        handle = find(coordinator_name(node_id))
        if handle is None:
            raise DrillError(f"Coordinator {node_id} is not there.")
        try:
            answer(getattr(handle, method).remote(*arguments), ASK_S)
        except CallError as error:
            raise DrillError(f"Coordinator {node_id} could not {method}: {_plain(error)}") from None


def _has_ended(pid: int | None) -> bool:
    return pid is not None and processes.started(pid) is None


def _plain(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[0].rstrip('.')}."


def _tell_left(sentences: str) -> None:
    print(f"rollcall: {sentences}", file=sys.stderr, flush=True)


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
