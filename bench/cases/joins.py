"""A whole group at once: its first rebalance, and the restart of all its static members.

Joins: every member has its connection open and sends JoinGroup at the same moment; the time ends
with the last SyncGroup answer. Either all join a group that does not exist (without an initial
delay, a server may need a second rebalance), or all but one join a group of one member, which takes
exactly one rebalance.

Mass restart (KIP-345): the group is Stable, then every static member returns over a new connection
with an unknown member id, as after a rolling deployment.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.client.blocking_client import BlockingClient
from bench.client.reactor import Reactor
from bench.load.joining import GroupPlan, Joiner
from bench.report.rounds import BenchRow, BenchSettings, Figures, Meter, run_rounds
from bench.servers.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

Measure: TypeAlias = Callable[[Server, GroupPlan], Figures]
SIZES: Final = (1_000, 5_000)
TOPIC: Final = "bench-joins"
WARM_UP_GROUPS: Final = 3
SLOW_ROUNDS: Final = 1
"""Rounds of the restart of 5,000 static members, which keeps Kafka busy for most of a minute."""


def bench_joins(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    """Measure first rebalances and mass restarts of both sizes on every server."""
    numbers = itertools.count()

    def turn_of(measure: Measure, size: int, is_static: bool) -> Callable[[Server], Figures]:
        return lambda server: measure(server, _plan(next(numbers), size, is_static))

    for server in servers:
        with BlockingClient(server.address) as connection:
            connection.create_topic(TOPIC, max(SIZES))
            connection.coordinator(TOPIC)
        for _ in range(WARM_UP_GROUPS):
            for _, is_static, measure in CASES:
                turn_of(measure, min(SIZES), is_static)(server)
    rows = []
    for size, (name, is_static, measure) in itertools.product(SIZES, CASES):
        is_slow = is_static and size == max(SIZES)
        rounds = SLOW_ROUNDS if is_slow else setting.rounds
        rows += run_rounds(f"{size} {name}", servers, rounds, turn_of(measure, size, is_static))
    return rows


def _plan(number: int, size: int, is_static: bool) -> GroupPlan:
    """Return the plan of a group that does not exist yet."""
    group_id = f"joins-{number}"
    instance_ids = [f"{group_id}-{index:05d}" if is_static else None for index in range(size)]
    return GroupPlan(group_id=group_id, topic=TOPIC, instance_ids=instance_ids)


def _join_empty(server: Server, plan: GroupPlan) -> Figures:
    reactor = Reactor()
    try:
        joiner = Joiner(plan, reactor, reactor.open(server.address, len(plan.instance_ids)))
        return _measure(server, joiner, joiner.join_all)
    finally:
        reactor.close()


def _join_one(server: Server, plan: GroupPlan) -> Figures:
    reactor = Reactor()
    try:
        joiner = Joiner(plan, reactor, reactor.open(server.address, len(plan.instance_ids)))
        joiner.join_first()
        return _measure(server, joiner, joiner.join_others)
    finally:
        reactor.close()


def _restart(server: Server, plan: GroupPlan) -> Figures:
    _join_empty(server, plan)
    return _join_empty(server, plan)


def _measure(server: Server, joiner: Joiner, join: Callable[[], float]) -> Figures:
    meter = Meter(server)
    joins_before = joiner.joins
    seconds = join()
    read = meter.read(len(joiner.members))
    return {
        "seconds_s": seconds,
        "server_cpu_s": read["server_cpu_s"],
        "beside_cpu_s": read["beside_cpu_s"],
        "generator_cpu_s": read["generator_cpu_s"],
        "joins_per_member": (joiner.joins - joins_before) / len(joiner.members),
        "generation": float(joiner.generation),
    }


CASES: Final[tuple[tuple[str, bool, Measure], ...]] = (
    ("join an empty group", False, _join_empty),
    ("join in one rebalance", False, _join_one),
    ("static members restart", True, _restart),
)
"""Name, whether the members are static, and how to measure."""
