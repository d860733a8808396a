"""Groups of Stable members, for measuring heartbeats and commits; and one that rebalances."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.client.blocking_client import BlockingClient
from bench.client.pipelines import Pipeline, RepeatedRequest
from bench.client.reactor import Reactor
from bench.load.joining import GroupPlan, Joiner, JoiningMember, heartbeat
from protocol.client.frames import HEARTBEAT_ANSWER, frame_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bench.report.rounds import Figures
    from bench.servers.server import Server

TOPIC: Final = "bench"
ANSWER: Final = HEARTBEAT_ANSWER.pack(HEARTBEAT_ANSWER.size - 4, 0, 0)
REBALANCING: Final = 10
"""Members of the group that rebalances; traces have a span for each of so many."""

EVERY_S: Final = 0.2
LATE_S: Final = 0.05
"""A rebalance that begins so long after it was due is late."""


def stable_groups(
    server: Server, group_ids: Iterable[str], members_each: int
) -> list[tuple[GroupPlan, JoiningMember]]:
    """Make these groups Stable; return every member with its group, ordered by group."""
    reactor = Reactor()
    ready: list[tuple[GroupPlan, JoiningMember]] = []
    try:
        with BlockingClient(server.address) as connection:
            for group_id in group_ids:
                joiner = _joined(group_id, members_each, connection, reactor)
                ready.extend((joiner.plan, member) for member in joiner.members)
    finally:
        reactor.close()
    return ready


def heartbeating_group(
    group_id: str, members: int, connection: BlockingClient, reactor: Reactor
) -> list[Pipeline]:
    """Make one group Stable; return its members' connections, ready to heartbeat."""
    return [
        Pipeline(member.channel, [RepeatedRequest(frame_of(heartbeat(member)), ANSWER)])
        for member in _joined(group_id, members, connection, reactor).members
    ]


class Pace:
    """When rebalances are due, and how many began, of these how many late (monotonic seconds).

    One that is late delays none of the later ones: those that are due meanwhile follow at once.
    """

    def __init__(self, begun_s: float) -> None:
        self._begun_s = begun_s
        self.count = 0
        self.late = 0

    @property
    def due_s(self) -> float:
        """When the next is due."""
        return self._begun_s + EVERY_S * (self.count + 1)

    def begins(self, now_s: float) -> None:
        """Count the one that begins now."""
        self.late += now_s - self.due_s > LATE_S
        self.count += 1


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """A group whose members join again and again, while it does."""

    group_id: str
    pace: Pace

    def meter(self) -> Callable[[], Figures]:
        """Begin to count; what it returns says how many a second there were, and how many late."""
        count, late, begun_s = self.pace.count, self.pace.late, time.perf_counter()

        def read() -> Figures:
            seconds = time.perf_counter() - begun_s
            return {
                "rebalances_per_s": (self.pace.count - count) / seconds,
                "late_rebalances": float(self.pace.late - late),
            }

        return read


_number = itertools.count()


@contextmanager
def rebalances(server: Server) -> Iterator[Rebalancing]:
    """Let all members of a new group join again, on a thread, due every :data:`EVERY_S`.

    Each of them is a rebalance.
    """
    stop, reactor, failed = threading.Event(), Reactor(), list[Exception]()
    group_id = f"rebalancing-{next(_number)}"
    with BlockingClient(server.address) as connection:
        joiner = _joined(group_id, REBALANCING, connection, reactor)
    pace = Pace(time.perf_counter())

    def run() -> None:
        try:
            while not stop.wait(max(pace.due_s - time.perf_counter(), 0)):
                pace.begins(time.perf_counter())
                for member in joiner.members:
                    member.kernel.rejoin()
                joiner.join_all()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="rebalances")
    thread.start()
    try:
        yield Rebalancing(group_id, pace)
    finally:
        stop.set()
        thread.join()
        reactor.close()
    if failed:
        raise failed[0]


def _joined(group_id: str, members: int, connection: BlockingClient, reactor: Reactor) -> Joiner:
    """Make one group of dynamic members Stable."""
    connection.create_topic(TOPIC, members)
    plan = GroupPlan(group_id=group_id, topic=TOPIC, instance_ids=(None,) * members)
    joiner = Joiner(plan, reactor, reactor.open(connection.coordinator(group_id), members))
    joiner.join_all()
    return joiner
