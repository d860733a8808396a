"""A running cluster as a drill sees it: its status, and the faults that can be injected.

Processes are found in the cluster's own status and get real signals. Only to cut a node off from
its peers, the node itself is called.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cluster.ray_calls import CallError, answer, find
from actors.cluster.ray_peers import coordinator_name
from actors.deployment import actors
from actors.errors import CommandError
from actors.waiting import is_answered, poll
from bench.client.blocking_client import BlockingClient
from bench.servers import processes
from failover.drills.checked import DrillError
from failover.drills.drill import Condition, Target
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from actors.cluster.registry import RegisteredCluster

POLL_S: Final = 0.1
ASK_S: Final = 10.0
COME_BACK_S: Final = 30.0
"""How long after the load a coordinator may still be unavailable."""
SMALL_DISK_BYTES: Final = 1 << 30
"""A file system up to this size may be filled; a larger one is a real disk."""
FILLER: Final = "filler"
FILLER_PIECE_BYTES: Final = 1 << 20

Address = tuple[str, int]


class LiveCluster:
    """A cluster of this machine; use it from a process that is connected to its Ray."""

    def __init__(self, found: RegisteredCluster) -> None:
        self.data_dir = Path(found.data_dir)
        self._bootstrap = tuple(_address(text) for text in found.bootstrap.split(","))
        self._console = ""
        self._pids: dict[int, int] = {}
        self._dead: set[int] = set()
        self._frozen: set[int] = set()
        self._has_slow_disk = False

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        """Every node's address; node *i* is the *i*-th."""
        return self._bootstrap

    @property
    def nodes(self) -> tuple[int, ...]:
        """Every node's id."""
        return tuple(range(len(self._bootstrap)))

    # --- its state

    def status(self) -> dict[str, Any] | None:
        """Return the cluster's status, or None while it is unavailable."""
        try:
            status = actors.status()
        except (CommandError, CallError):
            return None
        self._console = status["console"]
        for row in status["coordinators"]:
            if row["pid"] is not None:
                self._pids[row["node_id"]] = row["pid"]
        return status

    def ask(self, question: Callable[[BlockingClient], Any]) -> Any:
        """Ask nodes until one answers; if none does, raise the last error."""
        error: Exception = DrillError("The cluster has no address.")
        for address in self._bootstrap:
            try:
                with BlockingClient(address, ASK_S) as connection:
                    return question(connection)
            except (OSError, KafkaError) as raised:
                error = raised
        raise error

    def coordinator(self, group_id: str) -> Address:
        """Return the coordinator of a group."""
        at: Address = self.ask(lambda connection: connection.coordinator(group_id))
        return at

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, unless it exists."""
        self.ask(lambda connection: connection.create_topic(name, partitions))

    def topic_names(self, names: Sequence[str]) -> dict[UUID, str]:
        """Return the names of these topic ids, once all of them are known."""
        ids = poll(
            lambda: self.ask(lambda connection: connection.topic_ids(names)),
            COME_BACK_S,
            is_done=lambda ids: len(ids) == len(names),
            every_s=POLL_S,
        )
        if len(ids) != len(names):
            raise DrillError(f"Topic {(set(names) - set(ids)).pop()} is not there.")
        return {topic_id: name for name, topic_id in ids.items()}

    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return a group's committed offsets, once its coordinator can return them."""

        def look() -> dict[tuple[str, int], int]:
            with BlockingClient(self.coordinator(group_id), ASK_S) as connection:
                return connection.committed_offsets(group_id)

        failures = (OSError, KafkaError)
        return poll(look, COME_BACK_S, is_done=is_answered, every_s=POLL_S, retry=failures)

    def wait(self, until: Callable[[], bool], within_ms: int, what: object) -> None:
        """Wait until a condition holds; raise a one-sentence error when it takes too long."""
        if not poll(until, within_ms / 1000, every_s=POLL_S):
            raise DrillError(f"It was not {what} within {within_ms / 1000:g} s.")

    def is_led(self) -> bool:
        """Whether every node serves and every partition has a leader."""
        status = self.status()
        return status is not None and _holds(status, Condition.LED, self._dead)

    def is_replicated(self) -> bool:
        """Whether, in addition, every replica is in sync."""
        status = self.status()
        return status is not None and _holds(status, Condition.REPLICATED, self._dead)

    def find(self, target: Target, group_id: str) -> tuple[int, ...]:
        """Return the nodes that ``target`` means now; ``group_id`` determines the leader.

        This uses client requests and not the controller, which may just have been killed.
        """
        if target is Target.ALL:
            return self.nodes
        leader = self._bootstrap.index(self.coordinator(group_id))
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
        """``kill -9`` of the controller, which is the process that serves the console."""
        pid = processes.listener(int(self._console.rpartition(":")[2] or 0))
        if pid is None:
            raise DrillError("The controller is not there: no process of ours is its console.")
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


def _holds(status: Mapping[str, Any], condition: Condition, dead: set[int]) -> bool:
    """Whether a condition holds by a status that includes the kills."""
    rows = status["coordinators"]
    if any(row["state"] != "Running" or row["pid"] in dead for row in rows):
        return False
    if any(row["leader"] is None for row in (status["catalog"], *status["partitions"])):
        return False
    return condition is Condition.LED or not status["under_replicated"]


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


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
