"""Modern groups at scale: how long many members take to converge, and the cost of heartbeats.

Joins: all members join at the same moment, each over its own connection, and heartbeat at the
coordinator's interval. The time ends when each group's members are at one epoch, own as many
partitions as there are, in equal shares unless the assignor is sticky, and have confirmed that;
then nobody may own another's. The batching of assignments is each server's default.

Heartbeats: as in :mod:`bench.cases.heartbeats`, for members of consumer, share or streams groups.
"""

from __future__ import annotations

import itertools
from array import array
from typing import TYPE_CHECKING, Final

from bench.cases.closed_loop import CONNECTIONS, IN_FLIGHT, measure_closed_loop
from bench.client.blocking_client import BlockingClient
from bench.client.pipelines import Pipeline, RepeatedRequest, all_latencies, paced
from bench.client.reactor import Reactor
from bench.load.kinds import LOAD_KINDS, LoadKind
from bench.load.modern_members import LoadMember, MemberError, MemberLoad, is_exclusive, is_settled
from bench.report.rounds import BenchRow, BenchSettings, Figures, Meter, latencies, run_rounds
from protocol.client.frames import LENGTH, by_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.servers.server import Server

JOIN_CASES: Final[Mapping[str, tuple[tuple[str, int, int], ...]]] = {
    "consumer": (("100 groups of 100", 100, 100), ("one group of 5000", 1, 5_000)),
    "share": (("100 groups of 100", 100, 100), ("one group of 1000", 1, 1_000)),
    "streams": (("100 groups of 100", 100, 100), ("one group of 1000", 1, 1_000)),
}
"""By type of group: what is said of it, how many groups, and members of each."""

CLOSED_GROUPS, PACED_GROUPS, MEMBERS_EACH = 10, 50, 100
WARM_UP_SECONDS: Final = 10.0
ANSWER_SECONDS_MAX: Final = 10


def bench_joins_of(
    group_type: str, servers: Sequence[Server], setting: BenchSettings
) -> list[BenchRow]:
    """Measure how long groups of a type take to converge, on every server."""
    numbers = itertools.count()
    kind = LOAD_KINDS[group_type]

    def turn_of(groups: int, members: int) -> Callable[[Server], Figures]:
        return lambda server: join_at_once(server, kind, f"joins-{next(numbers)}", groups, members)

    for server in servers:
        for size in sorted({MEMBERS_EACH, *(members for _, _, members in JOIN_CASES[group_type])}):
            create_topic_of(server, kind, size)
        turn_of(1, MEMBERS_EACH)(server)
    rows = []
    for name, groups, members in JOIN_CASES[group_type]:
        rows += run_rounds(
            f"{name} join at once", servers, setting.rounds, turn_of(groups, members)
        )
    return rows


def bench_heartbeats_of(
    group_type: str, servers: Sequence[Server], setting: BenchSettings
) -> list[BenchRow]:
    """Measure steady heartbeats of a type's members, in a closed loop and paced."""
    kind = LOAD_KINDS[group_type]
    for server in servers:
        create_topic_of(server, kind, MEMBERS_EACH)
    return [*_closed(kind, servers, setting), *_paced(kind, servers, setting)]


def join_at_once(server: Server, kind: LoadKind, prefix: str, groups: int, members: int) -> Figures:
    """Let all members of new groups join; return how long it took them, and what it cost."""
    reactor = Reactor()
    try:
        by_group = [
            _members(reactor, server, kind, f"{prefix}-{number}", members)
            for number in range(groups)
        ]
        meter = Meter(server)
        load = MemberLoad(reactor)
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


def _members(
    reactor: Reactor, server: Server, kind: LoadKind, group_id: str, members: int
) -> list[LoadMember]:
    topics = (_topic(members),)
    return [
        LoadMember(group_id, f"{group_id}-{number:05}", topics, channel, kind)
        for number, channel in enumerate(reactor.open(server.address, members))
    ]


def _closed(kind: LoadKind, servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    ready = {each.name: _steady(each, kind, "closed", CLOSED_GROUPS) for each in servers}

    def turn(server: Server, seconds: float = setting.seconds) -> Figures:
        return measure_closed_loop(server, ready[server.name], seconds)

    for server in servers:
        turn(server, WARM_UP_SECONDS)
    case = f"closed loop, {CONNECTIONS} connections x {IN_FLIGHT} in flight"
    return run_rounds(case, servers, setting.rounds, turn)


def _paced(kind: LoadKind, servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    count = PACED_GROUPS * MEMBERS_EACH
    reactors = {server.name: Reactor() for server in servers}
    pipelines = {}
    for server in servers:
        requests = _steady(server, kind, "paced", PACED_GROUPS)
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


def _steady(server: Server, kind: LoadKind, prefix: str, groups: int) -> list[RepeatedRequest]:
    """Let groups converge; return each member's steady heartbeat with its current answer."""
    reactor = Reactor()
    try:
        by_group = [
            _members(reactor, server, kind, f"{prefix}-{number}", MEMBERS_EACH)
            for number in range(groups)
        ]
        members = [member for group in by_group for member in group]
        load = MemberLoad(reactor)
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


def create_topic_of(server: Server, kind: LoadKind, partitions: int) -> None:
    """Create the topic of groups of so many members."""
    with BlockingClient(server.address) as connection:
        for topic in kind.topics_for(_topic(partitions)):
            connection.create_topic(topic, partitions)
        connection.coordinator("joins")
