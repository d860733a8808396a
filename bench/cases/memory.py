"""The cost of 10,000 members: resident memory added to all coordinators together.

The members are in 100 groups. Each has its own open connection, as real consumers do, and has
joined, got its assignment and heartbeats. The memory is read after two heartbeats of every member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.cases.members import heartbeating_group
from bench.client.blocking_client import BlockingClient
from bench.client.pipelines import paced
from bench.client.reactor import Reactor
from bench.report.progress import note
from bench.report.rounds import BenchRow, BenchSettings, Figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.servers.server import Server

GROUPS, MEMBERS_EACH = 100, 100
WARM_UP_GROUPS: Final = 2
HEARTBEATS_PER_SECOND: Final = 2_500.0
MIB: Final = 1 << 20


def bench_memory(servers: Sequence[Server], _setting: BenchSettings) -> list[BenchRow]:
    """Measure once on each server; a JVM's heap is touched before, so only ours says much."""
    members = GROUPS * MEMBERS_EACH
    return [
        BenchRow(case=f"{members} members", server=server.name, rounds=(_measure(server),))
        for server in servers
    ]


def _measure(server: Server) -> Figures:
    reactor = Reactor()
    try:
        with BlockingClient(server.address) as connection:
            for number in range(WARM_UP_GROUPS):
                heartbeating_group(f"warm-up-{number}", MEMBERS_EACH, connection, reactor)
            before = server.resident_bytes()
            note(f"{server.name}: {GROUPS * MEMBERS_EACH} members join ...")
            pipelines = [
                pipeline
                for number in range(GROUPS)
                for pipeline in heartbeating_group(
                    f"memory-{number}", MEMBERS_EACH, connection, reactor
                )
            ]
            joined = server.resident_bytes()
            note(f"{server.name}: all of them heartbeat ...")
            paced(
                reactor,
                pipelines,
                HEARTBEATS_PER_SECOND,
                2 * len(pipelines) / HEARTBEATS_PER_SECOND,
            )
            after = server.resident_bytes()
    finally:
        reactor.close()
    return {
        "before_mib": before / MIB,
        "added_joined_mib": (joined - before) / MIB,
        "added_heartbeating_mib": (after - before) / MIB,
        "added_per_member_kib": (after - before) / 1024 / len(pipelines),
    }
