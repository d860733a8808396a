"""What 10,000 members cost: resident memory added to all coordinators together.

The members are in 100 groups, each with its own open connection as real consumers have, joined,
assigned and heartbeating: the memory is read after every member has heartbeat twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.client.asking import Connection
from bench.client.looping import Line, Request, paced
from bench.client.reactor import Reactor
from bench.load.joining import Joiner, Plan, heartbeat
from bench.report.rounds import Figures, Row, Setting
from protocol.client.frames import HEARTBEAT_ANSWER, frame_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.servers.server import Server

GROUPS, MEMBERS_EACH = 100, 100
TOPIC: Final = "bench-memory"
WARM_UP_GROUPS: Final = 2
HEARTBEATS_PER_SECOND: Final = 2_500.0
MIB: Final = 1 << 20
ANSWER: Final = HEARTBEAT_ANSWER.pack(HEARTBEAT_ANSWER.size - 4, 0, 0)


def bench_memory(servers: Sequence[Server], _setting: Setting) -> list[Row]:
    """Measure once on each server; a JVM's heap is touched before, so only ours tells much."""
    members = GROUPS * MEMBERS_EACH
    return [
        Row(case=f"{members} members", server=server.name, rounds=(_measure(server),))
        for server in servers
    ]


def _measure(server: Server) -> Figures:
    reactor = Reactor()
    try:
        with Connection(server.address) as connection:
            connection.create_topic(TOPIC, MEMBERS_EACH)
            for number in range(WARM_UP_GROUPS):
                _join(f"warm-up-{number}", connection, reactor)
            before = server.resident_bytes()
            lines = [
                line
                for number in range(GROUPS)
                for line in _join(f"memory-{number}", connection, reactor)
            ]
            joined = server.resident_bytes()
            paced(reactor, lines, HEARTBEATS_PER_SECOND, 2 * len(lines) / HEARTBEATS_PER_SECOND)
            after = server.resident_bytes()
    finally:
        reactor.close()
    return {
        "before_mib": before / MIB,
        "added_joined_mib": (joined - before) / MIB,
        "added_heartbeating_mib": (after - before) / MIB,
        "added_per_member_kib": (after - before) / 1024 / len(lines),
    }


def _join(group_id: str, connection: Connection, reactor: Reactor) -> list[Line]:
    """Make one group Stable; return its members' connections, ready to heartbeat."""
    plan = Plan(group_id=group_id, topic=TOPIC, instance_ids=(None,) * MEMBERS_EACH)
    channels = reactor.open(connection.coordinator(group_id), MEMBERS_EACH)
    joiner = Joiner(plan, reactor, channels)
    joiner.join_all()
    return [
        Line(member.channel, [Request(frame_of(heartbeat(member)), ANSWER)])
        for member in joiner.members
    ]
