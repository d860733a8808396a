"""Drills on a running cluster: a coordinator is drained or killed, a leadership is moved.

The console asks for them; the controller carries them out, one at a time. A drill that would take
the majority from a partition is refused.
"""

from __future__ import annotations

import asyncio
import logging
import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.cluster.ray_peers import UNREACHED, cause, coordinator_name
from actors.deployment.status import SERVING, cluster_status, partition_rows
from actors.errors import CommandError, FailureError
from actors.waiting import poll_async
from failover.partition_kinds import title_of
from storage.quorum import majority

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from actors.cluster.spec import ClusterSpec

    Row = Mapping[str, Any]

_log = logging.getLogger("rollcall.controller")

DIE_S: Final = 1.0
"""How long the answer of a process that is to die is waited for; there is none, if it dies."""

SEEN_S: Final = 5.0
LOOK_S: Final = 0.05
"""How long, and how often, is looked whether a process is gone, or a leadership has moved."""

RUNNING: Final = "Running"
DRAINING: Final = "Draining"


class Moved(Protocol):
    """A leadership that a drain moved; ``leader`` is None if it could not be moved."""

    @property
    def partition(self) -> int:
        """The partition."""

    @property
    def leader(self) -> int | None:
        """Who leads it now."""


class ActorCaller(Protocol):
    """Calls to other actors (:class:`actors.cluster.ray_peers.Actors`)."""

    async def ask(self, name: str, method: str, *arguments: object, wait_s: float = ...) -> Any:
        """Call a method of a named actor; raises one of ``UNREACHED``."""


class DrilledCluster(Protocol):
    """The cluster as the controller sees it."""

    spec: ClusterSpec

    async def statuses(self) -> Mapping[int, Row]:
        """Return the status of every coordinator that answers."""

    def processes(self) -> Sequence[int]:
        """Return the process of each coordinator; 0: it is not up."""

    async def drain(self, node_id: int) -> Sequence[Moved]:
        """Move all leaderships away from a node, until it restarts or the drain ends."""

    async def end_drain(self, node_id: int) -> None:
        """Allow a drained node to lead again."""

    def look_soon(self) -> None:
        """Look at the coordinators at once, and give orders."""


class Drills:
    """Carries out the drills of one cluster."""

    def __init__(self, cluster: DrilledCluster, actors: ActorCaller) -> None:
        self._cluster = cluster
        self._actors = actors
        self._lock = asyncio.Lock()

    async def carry_out(self, name: str, *arguments: int) -> str:
        """Carry out the drill of :data:`DRILLS` with this name; return what was done.

        Raises CommandError if it is refused, or did not come about.
        """
        if self._lock.locked():
            raise FailureError("Another drill is under way; try again after it.")
        async with self._lock:
            try:
                said = await DRILLS[name](self, *arguments)
            except CommandError as error:
                _log.warning("the drill %s %s is refused: %s", name, arguments, error)
                raise
            except UNREACHED as error:
                _log.warning("the drill %s %s failed: %s", name, arguments, cause(error))
                raise FailureError(f"A coordinator does not answer: {cause(error)}") from error
            _log.warning("drill: %s", said)
            self._cluster.look_soon()
            return said

    async def drain(self, node_id: int) -> str:
        """Move all leaderships away from a coordinator."""
        refuse(not_in_state(node_id, await self._status(), RUNNING))
        moved = await self._cluster.drain(node_id)
        led = [
            f"{title_of(row.partition)} by {row.leader}" for row in moved if row.leader is not None
        ]
        left = [title_of(row.partition) for row in moved if row.leader is None]
        if left:
            raise FailureError(
                f"Coordinator {node_id} drains, but no other can take over {', '.join(left)}."
            )
        return f"Coordinator {node_id} drains; now led: {', '.join(led) or 'nothing new'}."

    async def end_drain(self, node_id: int) -> str:
        """Allow a drained coordinator to lead again."""
        refuse(not_in_state(node_id, await self._status(), DRAINING))
        await self._cluster.end_drain(node_id)
        return f"The drain of coordinator {node_id} has ended: it may lead again."

    async def kill(self, node_id: int) -> str:
        """End a coordinator's process as a crash does; Ray starts it again."""
        refuse(not_expendable(node_id, await self._status()))
        pid = self._cluster.processes()[node_id]
        if not pid:
            raise FailureError(f"Coordinator {node_id} is not up.")
        with suppress(*UNREACHED):
            await self._actors.ask(coordinator_name(node_id), "die", wait_s=DIE_S)

        def is_same() -> bool:
            return self._cluster.processes()[node_id] == pid

        if await poll_async(is_same, SEEN_S, is_done=operator.not_, every_s=LOOK_S):
            raise FailureError(f"Coordinator {node_id} (process {pid}) could not be killed.")
        return f"Coordinator {node_id} (process {pid}) was killed; it is started again."

    async def move_leader(self, partition: int, to: int) -> str:
        """Transfer a partition's leadership to a replica that is in sync."""
        status = await self._status()
        refuse(cannot_take(partition, to, status))
        leader = row_of(partition, status)["leader"]
        await self._actors.ask(coordinator_name(leader), "transfer", partition, to)
        for _ in range(round(SEEN_S / LOOK_S)):
            if row_of(partition, await self._status())["leader"] == to:
                return f"The leader of {title_of(partition)} was moved from {leader} to {to}."
            await asyncio.sleep(LOOK_S)
        raise FailureError(
            f"The leader of {title_of(partition)} was not moved within {SEEN_S:g} s."
        )

    async def _status(self) -> Row:
        cluster = self._cluster
        return cluster_status(cluster.spec, cluster.processes(), await cluster.statuses(), [])


DRILLS: Final[Mapping[str, Callable[..., Awaitable[str]]]] = {
    "drain": Drills.drain,
    "end-drain": Drills.end_drain,
    "kill": Drills.kill,
    "move-leader": Drills.move_leader,
}


def refuse(why: str) -> None:
    """Refuse a drill if there is a reason."""
    if why:
        raise FailureError(why)


def row_of(partition: int, status: Row) -> Row:
    """Return a partition's row of a status; raises FailureError."""
    for row in partition_rows(status):
        if row["partition"] == partition:
            return row
    raise FailureError(f"There is no partition {partition}.")


def not_in_state(node_id: int, status: Row, wanted: str) -> str:
    """Return why a coordinator is not in a state, or ""."""
    row = _coordinator(node_id, status)
    if row["state"] == wanted:
        return ""
    return f"Coordinator {node_id} is not {wanted}, but {row['state']}."


def not_expendable(node_id: int, status: Row) -> str:
    """Return why a coordinator must not be killed now, or "".

    Every other one must serve, and each partition must have a leader, and a majority in sync
    without this node.
    """
    row = _coordinator(node_id, status)
    if row["state"] not in SERVING:
        return f"Coordinator {node_id} does not serve: {row['state']}."
    down = [each for each in status["coordinators"] if each["state"] not in SERVING]
    if down:
        return (
            f"Coordinator {down[0]['node_id']} does not serve: with another one down,"
            " partitions could lose their majority."
        )
    for each in partition_rows(status):
        if each["leader"] is None:
            return f"{title_of(each['partition'])} has no leader."
        left = set(each["in_sync"]) - {node_id}
        if node_id in each["replicas"] and len(left) < majority(len(each["replicas"])):
            return (
                f"Without coordinator {node_id}, {title_of(each['partition'])} would have no"
                f" majority: in sync are {_listed(each['in_sync'])} of {_listed(each['replicas'])}."
            )
    return ""


def cannot_take(partition: int, to: int, status: Row) -> str:
    """Return why a partition's leadership cannot be moved to a coordinator, or ""."""
    row = row_of(partition, status)
    title = title_of(partition)
    if row["leader"] is None:
        return f"{title} has no leader."
    if row["leader"] == to:
        return f"Coordinator {to} leads {title} already."
    if to not in row["in_sync"]:
        return f"Coordinator {to} cannot take over {title}: in sync are {_listed(row['in_sync'])}."
    return not_in_state(to, status, RUNNING)


def _coordinator(node_id: int, status: Row) -> Row:
    rows: Sequence[Row] = status["coordinators"]
    if not 0 <= node_id < len(rows):
        raise FailureError(f"There is no coordinator {node_id}.")
    return rows[node_id]


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes)) or "none"
