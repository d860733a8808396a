"""Drives many classic members against a cluster and returns the history of each.

Every member has its own TCP connection to its coordinator, as every real client has, unless
members are to share some (:mod:`bench.client.member_connections`). FindCoordinator always goes over
connections that members share (:mod:`bench.client.coordinator_lookup`). When a node dies, its
members notice at once, look for their coordinator on any bootstrap address that answers, and
continue.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import uvloop

from actors.waiting import poll_async
from bench.client.connection_settings import DEFAULT
from bench.client.coordinator_lookup import LookupConnections
from bench.client.due_times import SendCounts, next_due_ms
from bench.client.member_connections import MemberConnections
from bench.client.paced_work import PacedWork
from bench.client.stream import Stream
from protocol.members.client import State
from protocol.members.history import MemberHistoryKind
from protocol.members.kinds import TopicMetadata, member_of
from protocol.members.requests import OFFSET_COMMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.client.connection_settings import ConnectionSettings
    from bench.client.coordinator_lookup import Address
    from bench.client.member_connections import MemberConnection
    from protocol.members.classic import MemberConfig
    from protocol.members.client import BrokerNode, Outgoing
    from protocol.members.history import MemberHistoryEvent
    from protocol.members.kinds import Member

FINAL: Final = "final"
"""The kind of a member's last row: what it held when the load ended."""
FAREWELL_SECONDS: Final = 5.0
LOOKUP: Final = "lookup"

HistoryRow: TypeAlias = tuple[
    str, str, bool, int, str, str, int, list[str], str | None, dict[str, int]
]
"""One event of one member, in the order of ``history.SCHEMA``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """The members to drive, and for how long.

    ``until_ms`` is Unix time. A member commits every ``commit_interval_ms`` (0: never) the time of
    the commit as the offset of each partition it owns, so that a later commit has a larger offset.
    ``members_per_connection`` of them share a connection, except while they wait for others.
    """

    bootstrap: tuple[tuple[str, int], ...]
    members: tuple[MemberConfig, ...]
    partitions_of: Mapping[str, int]
    until_ms: int
    commit_interval_ms: int = 1_000
    members_per_connection: int = 1
    seed: int = 0


def drive(load: LoadSpec, is_over: Callable[[], bool] = lambda: False) -> list[HistoryRow]:
    """Run ``load`` and return the history of all its members.

    It ends at its ``until_ms``, or earlier if ``is_over`` says so.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(load, is_over))


def now_ms() -> int:
    """Return Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


async def _run(load: LoadSpec, is_over: Callable[[], bool]) -> list[HistoryRow]:
    rng = random.Random(load.seed)
    topics = TopicMetadata(partitions_of=load.partitions_of)
    lookups = CoordinatorLookups(load.bootstrap, members_each=load.members_per_connection)
    drivers = []
    for config in load.members:
        member = member_of(config, random.Random(rng.random()), topics)
        drivers.append(MemberDriver(member, lookups, load.commit_interval_ms))
    for driver in drivers:
        driver.step()
    await poll_async(is_over, (load.until_ms - now_ms()) / 1000)
    rows = [row for driver in drivers for row in driver.rows()]
    for driver in drivers:
        driver.stop("the load is over")
    await poll_async(lambda: all(driver.member.is_done for driver in drivers), FAREWELL_SECONDS)
    for driver in drivers:
        driver.close()
    lookups.close()
    return rows


class CoordinatorLookups:
    """Finds coordinators for all members, whose connections have these ``settings``.

    ``connections`` are theirs to their coordinators, each of ``members_each`` of them. ``work`` is
    where members put what they do when a connection ends or a coordinator is found.
    """

    def __init__(
        self,
        bootstrap: tuple[Address, ...],
        settings: ConnectionSettings = DEFAULT,
        members_each: int = 1,
    ) -> None:
        self.connections = MemberConnections(members_each, settings)
        self.work = PacedWork()
        self._connections = LookupConnections(
            bootstrap, lambda address: _LookupStream(address, self._broke, self.work, settings)
        )

    def ask(self, driver: MemberDriver, request: Outgoing) -> Address:
        """Send ``request`` for ``driver``, which gets the answer; return who was asked."""
        connection = self._connections.next()
        connection.ask(driver, request)
        return connection.address

    def did_not_answer(self, address: Address) -> None:
        """Ask others for a while."""
        self._connections.did_not_answer(address)

    def close(self) -> None:
        """Close the connections."""
        self.work.end()
        for connection in self._connections.all:
            connection.close()

    def _broke(self, address: Address) -> None:
        self._connections.broke(address)


class _LookupStream:
    """One connection to one node, opened when there is a request."""

    def __init__(
        self,
        address: Address,
        broke: Callable[[Address], None],
        work: PacedWork,
        settings: ConnectionSettings,
    ) -> None:
        self.address = address
        self._broke = broke
        self._work = work
        self._settings = settings
        self._stream: Stream | None = None

    @property
    def in_flight(self) -> int:
        """The number of requests without an answer yet."""
        return 0 if self._stream is None else self._stream.in_flight

    def ask(self, driver: MemberDriver, request: Outgoing) -> None:
        if self._stream is None:
            self._stream = Stream(
                self.address, LOOKUP, self._answered, self._broken, self._settings
            )
        self._stream.send(request.message, (driver, request), driver.member.config.client_id)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _answered(self, token: tuple[MemberDriver, Outgoing], response: Any) -> None:
        driver, request = token
        self._work.add(partial(driver.answered, request, response))

    def _broken(self, tokens: Sequence[tuple[MemberDriver, Outgoing]]) -> None:
        self._stream = None
        self._broke(self.address)
        for driver, request in tokens:
            self._work.add(partial(driver.lost, request))


class MemberDriver:
    """One member, its connection and its timer."""

    def __init__(
        self,
        member: Member,
        lookups: CoordinatorLookups,
        commit_interval_ms: int,
        sends: SendCounts | None = None,
    ) -> None:
        """Count the requests in ``sends``, which many members may share."""
        self.member = member
        self._sends = SendCounts() if sends is None else sends
        self._due_ms: int | None = None
        self._lookups = lookups
        self._commit_interval_ms = commit_interval_ms
        self._commit_at = 0
        self._commit_due_ms: int | None = None
        """When the commit was due that the member has been told to send."""
        self._commits_since_ms = 0
        """Since when the member may commit; 0: it may not."""
        self._sent_ms = 0
        self._connection: MemberConnection | None = None
        self._request: Outgoing | None = None
        self._asked: Address | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self._is_broken = False
        """The connection has ended, and the member does not know yet."""
        self._unread: list[Callable[[], None]] | None = None
        """What arrived while the process stands still: an answer and an end; None: it runs."""

    def step(self, due_ms: int | None = None, waited_ms: int | None = None) -> None:
        """Send what the member wants to send, and set the timer for the next time.

        ``due_ms``: when it was due; None: at the time that the timer was set for. ``waited_ms``:
        since when a heartbeat has waited for the answer to a commit.
        """
        if self._ended or self._unread is not None:
            return
        self._tell_of_the_end()
        now = now_ms()
        member = self.member
        if due_ms is None:
            due_ms = self._due_ms
        commits = self._commit_if_due(now)
        for request in member.poll(now):
            self._sends.count(due_ms, now, self._waited_ms(request, waited_ms))
            self._sent_ms = now
            self._send(request)
        if self._request is None:
            self._commit_due_ms = None  # there was nothing to commit, or it is tried again later
        deadline = member.next_deadline()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._due_ms = None
        if deadline is not None:
            if commits and self._request is None:
                deadline = min(deadline, self._commit_at)
            self._due_ms = max(deadline, now)
            delay_s = max(1, deadline - now) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.step)
        elif member.is_done:
            self.close()

    def _commit_if_due(self, now: int) -> bool:
        """Let the member commit if it is time to; return whether it may commit at all."""
        if self._commit_interval_ms <= 0 or self.member.state is not State.STABLE:
            self._commits_since_ms = 0
            return False
        self._commits_since_ms = self._commits_since_ms or now
        if now >= self._commit_at:
            if self._commit_due_ms is None:
                self._commit_due_ms = self._commit_at
            self._commit_at = next_due_ms(self._commit_at, self._commit_interval_ms, now)
            self.member.commit(dict.fromkeys(self.member.partitions, now))
        return True

    def _waited_ms(self, request: Outgoing, waited_ms: int | None) -> int | None:
        """Return since when a request has been due that may have waited for another's answer."""
        if self._commit_due_ms is None or request.message.__api_key__ != OFFSET_COMMIT:
            return waited_ms
        due_ms, self._commit_due_ms = self._commit_due_ms, None
        return max(due_ms, self._commits_since_ms)

    def _send(self, request: Outgoing) -> None:
        if self._request is not None:  # given up: its answer must not be taken for this one's
            if self._connection is not None:
                self._connection.give_up()
                self._connection = None
            if self._request.to is None and self._asked is not None:
                self._lookups.did_not_answer(self._asked)
        self._request = request
        if request.to is None:
            self._asked = self._lookups.ask(self, request)
            return
        self._connection_for(request.message.__api_key__, request.to).send(request.message, request)

    def _connection_for(self, api_key: int, node: BrokerNode) -> MemberConnection:
        """Return the connection for a request; an earlier one that does not fit is closed."""
        address, connections = (node.host, node.port), self._lookups.connections
        connection = self._connection
        if connection is not None and (
            connection.address != address or connection.is_shared != connections.shares(api_key)
        ):
            self.close()
        if self._connection is None:
            self._connection = connections.open(
                address, self.member.config.client_id, api_key, self.answered, self._broken
            )
        return self._connection

    def answered(self, request: Outgoing, response: Any) -> None:
        """Hand an answer to the member."""
        if self._unread is not None:
            self._unread.append(partial(self.answered, request, response))
            return
        if request is not self._request or self._ended:
            return
        self._request = None
        member = self.member
        member.receive(request, response, now_ms())
        waited_ms = None
        if request.message.__api_key__ == OFFSET_COMMIT and member.state is State.STABLE:
            waited_ms = max(member.next_deadline() or 0, self._sent_ms)
        self.step(waited_ms=waited_ms)

    def lost(self, request: Outgoing) -> None:
        """Tell the member that there will be no answer."""
        if self._unread is not None:
            self._unread.append(partial(self.lost, request))
        elif request is self._request:
            self._request = None
            self.member.lost(request, now_ms())
            self.step()

    def stop(self, reason: str) -> None:
        """Leave the group permanently; a static member of a classic group just stops."""
        self.leave(reason, for_good=True)

    def leave(self, reason: str, *, for_good: bool = False) -> None:
        """Leave the group; a static member keeps its place for a while, unless ``for_good``."""
        self._commit_interval_ms = 0
        self.member.leave(reason, for_good=for_good)
        self.step()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to other topics."""
        self.member.subscribe(topics)
        self.step()

    def freeze(self) -> None:
        """Stand still: send nothing, and read nothing."""
        self._unread = []
        self._due_ms = None
        if self._timer is not None:
            self._timer.cancel()

    def thaw(self) -> None:
        """Go on, with what arrived meanwhile."""
        unread, self._unread = self._unread or [], None
        self._commits_since_ms = self._sent_ms = now_ms()  # nothing was due meanwhile
        for take in unread:
            take()
        self.step()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def end(self) -> None:
        """End like a killed process: send nothing, and do nothing more."""
        self._ended = True
        self.close()
        if self._timer is not None:
            self._timer.cancel()

    def rows(self) -> Iterator[HistoryRow]:
        """Return the member's history so far, and what it holds now."""
        member = self.member
        for event in member.history:
            yield _row(member, event)
        yield _final_row(member)

    def _broken(self) -> None:
        if self._unread is not None:
            self._unread.append(self._broken)
            return
        self._connection = None
        self._is_broken = True
        self._lookups.work.add(self._tell_of_the_end)

    def _tell_of_the_end(self) -> None:
        """Tell the member that its connection has ended, unless it stands still or knows it."""
        if not self._is_broken or self._ended or self._unread is not None:
            return
        self._is_broken = False
        if self._request is None:
            self.member.disconnected(now_ms())
            self.step()
        elif self._request.to is not None:
            self.lost(self._request)


def _row(member: Member, event: MemberHistoryEvent) -> HistoryRow:
    config = member.config
    partitions = event.partitions if event.kind is MemberHistoryKind.ASSIGNED else ()
    return (
        config.group_id,
        config.instance_id or config.client_id,
        config.instance_id is not None,
        event.time_ms,
        event.kind.value,
        event.member_id,
        event.generation,
        [f"{topic}-{index}" for topic, index in partitions],
        event.error,
        {f"{topic}-{index}": offset for topic, index, offset in event.offsets},
    )


def _final_row(member: Member) -> HistoryRow:
    config = member.config
    return (
        config.group_id,
        config.instance_id or config.client_id,
        config.instance_id is not None,
        now_ms(),
        FINAL,
        member.member_id,
        member.generation,
        [f"{topic}-{index}" for topic, index in member.partitions],
        None,
        {},
    )
