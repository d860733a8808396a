"""Consumer groups at scale: how long many members take to converge, and the cost of heartbeats.

Joins: all members join at the same moment, each over its own connection, and heartbeat at the
coordinator's interval. The time ends when each group's members are at one epoch, own every
partition exactly once in equal shares, and have confirmed that. The batching of assignments is each
server's default.

Heartbeats: as in :mod:`bench.cases.heartbeats`, for members of consumer groups.
"""

from __future__ import annotations

import itertools
from array import array
from typing import TYPE_CHECKING, Final

from bench.cases.closed_loop import CONNECTIONS, IN_FLIGHT, measure_closed_loop
from bench.client.blocking_client import BlockingClient
from bench.client.pipelines import Pipeline, RepeatedRequest, all_latencies, paced
from bench.client.reactor import Reactor
from bench.load.consumers import ConsumerLoad, LoadMember, MemberError, is_exclusive, is_settled
from bench.report.rounds import BenchRow, BenchSettings, Figures, Meter, latencies, run_rounds
from protocol.client.frames import LENGTH, by_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.servers.server import Server

LONG_SESSIONS: Final[Mapping[str, str]] = {
    "group.consumer.max.session.timeout.ms": "1500000",
    "group.consumer.session.timeout.ms": "1500000",
}
"""For both servers: members stay in their groups while the other server is measured."""

JOIN_CASES: Final = (("100 groups of 100", 100, 100), ("one group of 5000", 1, 5_000))
CLOSED_GROUPS, PACED_GROUPS, MEMBERS_EACH = 10, 50, 100
WARM_UP_SECONDS: Final = 10.0
ANSWER_SECONDS_MAX: Final = 10


def bench_consumer_joins(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    """Measure how long groups take to converge, on every server."""
    numbers = itertools.count()

    def turn_of(groups: int, members: int) -> Callable[[Server], Figures]:
        return lambda server: _join(server, f"joins-{next(numbers)}", groups, members)

    for server in servers:
        _create_topic(server, 5_000)
        _create_topic(server, MEMBERS_EACH)
        turn_of(1, MEMBERS_EACH)(server)
    rows = []
    for name, groups, members in JOIN_CASES:
        rows += run_rounds(
            f"{name} join at once", servers, setting.rounds, turn_of(groups, members)
        )
    return rows


def bench_consumer_heartbeats(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    """Measure steady heartbeats in a closed loop and paced, on every server."""
    for server in servers:
        _create_topic(server, MEMBERS_EACH)
    return [*_closed(servers, setting), *_paced(servers, setting)]


def _join(server: Server, prefix: str, groups: int, members: int) -> Figures:
    reactor = Reactor()
    try:
        by_group = [
            _members(reactor, server, f"{prefix}-{number}", members) for number in range(groups)
        ]
        meter = Meter(server)
        load = ConsumerLoad(reactor)
        load.add([member for group in by_group for member in group])
        unsettled = set(range(groups))

        def is_done() -> bool:
            settled = {each for each in unsettled if is_settled(by_group[each], members)}
            unsettled.difference_update(settled)
            return not unsettled

        seconds = load.settle(is_done)
        if not all(map(is_exclusive, by_group)):
            raise MemberError("a partition is owned twice")
        read = meter.read(load.answered)
        return {
            "seconds_s": seconds,
            "server_cpu_s": read["server_cpu_s"],
            "beside_cpu_s": read["beside_cpu_s"],
            "generator_cpu_s": read["generator_cpu_s"],
            "heartbeats_per_member": load.answered / (groups * members),
        }
    finally:
        reactor.close()


def _members(reactor: Reactor, server: Server, group_id: str, members: int) -> list[LoadMember]:
    topics = (_topic(members),)
    return [
        LoadMember(group_id, f"{group_id}-{number:05}", topics, channel)
        for number, channel in enumerate(reactor.open(server.address, members))
    ]


def _closed(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    ready = {each.name: _steady(each, "closed", CLOSED_GROUPS) for each in servers}

    def turn(server: Server, seconds: float = setting.seconds) -> Figures:
        return measure_closed_loop(server, ready[server.name], seconds)

    for server in servers:
        turn(server, WARM_UP_SECONDS)
    case = f"closed loop, {CONNECTIONS} connections x {IN_FLIGHT} in flight"
    return run_rounds(case, servers, setting.rounds, turn)


def _paced(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    count = PACED_GROUPS * MEMBERS_EACH
    reactors = {server.name: Reactor() for server in servers}
    pipelines = {}
    for server in servers:
        requests = _steady(server, "paced", PACED_GROUPS)
        channels = reactors[server.name].open(server.address, count)
        pipelines[server.name] = [Pipeline(c, [r]) for c, r in zip(channels, requests, strict=True)]

    def turn(server: Server, seconds: float = setting.seconds) -> Figures:
        own = pipelines[server.name]
        for pipeline in own:
            pipeline.latencies_s = array("d")
        meter = Meter(server)
        answered = paced(reactors[server.name], own, count, seconds)
        return {**meter.read(answered), **latencies(all_latencies(own))}

    try:
        for server in servers:
            turn(server, WARM_UP_SECONDS)
        return run_rounds(f"paced, {count} members once a second", servers, setting.rounds, turn)
    finally:
        for reactor in reactors.values():
            reactor.close()


def _steady(server: Server, prefix: str, groups: int) -> list[RepeatedRequest]:
    """Let groups converge; return each member's steady heartbeat with its current answer."""
    reactor = Reactor()
    try:
        by_group = [
            _members(reactor, server, f"{prefix}-{number}", MEMBERS_EACH)
            for number in range(groups)
        ]
        members = [member for group in by_group for member in group]
        load = ConsumerLoad(reactor)
        load.add(members)
        load.settle(lambda: all(is_settled(group, MEMBERS_EACH) for group in by_group))
        frames = [member.heartbeat_frame() for member in members]
        return [
            RepeatedRequest(frame, _answer(reactor, member, bytes(frame)))
            for member, frame in zip(members, frames, strict=True)
        ]
    finally:
        reactor.close()


def _answer(reactor: Reactor, member: LoadMember, frame: bytes) -> bytes:
    answers: list[bytes] = []
    member.channel.received = by_frame(answers.append)
    member.channel.send(frame)
    for _ in range(ANSWER_SECONDS_MAX):
        reactor.turn(1.0)
        if answers:
            return LENGTH.pack(len(answers[0])) + answers[0]
    raise MemberError("a steady heartbeat was not answered")


def _topic(partitions: int) -> str:
    return f"bench-{partitions}"


def _create_topic(server: Server, partitions: int) -> None:
    with BlockingClient(server.address) as connection:
        connection.create_topic(_topic(partitions), partitions)
        connection.coordinator("joins")
