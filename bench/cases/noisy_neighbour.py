"""The effect of a noisy group on another group of the same coordinator (KIP-1263).

On one coordinator, a group of 20 members heartbeats quietly. Then 1,000 members of another group
join at once, each subscribed to 100 random topics of 1,000 topics of 50 partitions; and when they
have converged, 200 of them per second change their subscription. The latencies of the quiet group
are measured in each phase, and in the last one also those of the changes themselves.
"""

from __future__ import annotations

import random
import re
import resource
import time
import urllib.request
from typing import TYPE_CHECKING, Final

from bench.client.blocking_client import BlockingClient
from bench.client.reactor import Reactor
from bench.load.consumers import ConsumerLoad, LoadMember
from bench.load.probe_group import MEMBERS, TOPIC, running_probe_group
from bench.report.rounds import BenchRow, Figures, latencies
from bench.report.tables import PEER
from bench.servers.rollcall import ONE_COORDINATOR
from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.report.rounds import BenchSettings
    from bench.servers.server import Server

TOPICS: Final = 1_000
NOISY_MEMBERS: Final = 1_000
SHARE: Final = 0.1
"""How many of the topics are in each subscription."""

CHANGES_PER_SECOND: Final = 200
JOINING_SECONDS: Final = 10.0
QUIET_SECONDS: Final = 5.0
SEED: Final = 1263
CONFIGS: Final = {**ONE_COORDINATOR, "event.loop.watch.interval.ms": "1"}
LOOP_HELD: Final = re.compile(r"event_loop_held_time_ms_(p99|p999|max)\{.*\} (\S+)")


def bench_noisy_neighbour(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    """Measure the quiet, the join and the change phase on every server, one after the other."""
    rows: list[BenchRow] = []
    for server in servers:
        _create_topics(server, setting.partitions)
    for server in servers:
        rounds = [_one_round(server, f"storm-{n}", setting.seconds) for n in range(setting.rounds)]
        for case in rounds[0]:
            figures = tuple(each[case] for each in rounds)
            rows.append(BenchRow(case=case, server=server.name, rounds=figures))
    return rows


def _create_topics(server: Server, partitions: int) -> None:
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if server.name == PEER and TOPICS * partitions >= files_max:
        raise StartError(
            f"Kafka opens a file for each of {TOPICS * partitions:,} partitions and may open"
            f" {files_max:,}: raise that (ulimit -Hn), or choose fewer by --partitions."
        )
    with BlockingClient(server.address) as connection:
        connection.create_topic(TOPIC, MEMBERS)
        connection.coordinator(TOPIC)
        for number in range(TOPICS):
            connection.create_topic(_topic(number), partitions)


def _one_round(server: Server, group_id: str, seconds: float) -> dict[str, Figures]:
    rng = random.Random(SEED)
    subscriptions = [
        tuple(sorted(_topic(n) for n in rng.sample(range(TOPICS), round(SHARE * TOPICS))))
        for _ in range(NOISY_MEMBERS)
    ]
    reactor = Reactor()
    load = ConsumerLoad(reactor)
    marks, held = [], []
    try:
        channels = reactor.open(server.address, NOISY_MEMBERS)
        members = [
            LoadMember(group_id, f"{group_id}-{n:04}", subscriptions[n], each)
            for n, each in enumerate(channels)
        ]
        with running_probe_group(server.address, f"victim-of-{group_id}") as probe:
            marks.append(time.perf_counter())
            time.sleep(QUIET_SECONDS)  # this is measured: an idle server
            marks.append(time.perf_counter())
            held.append(_held(server))
            load.add(members)
            load.run(JOINING_SECONDS)
            marks.append(time.perf_counter())
            held.append(_held(server))
            load.run(seconds, _changes(load, subscriptions, rng))
            marks.append(time.perf_counter())
            held.append(_held(server))
            probe.stop()
        phases = ("quiet", "while 1,000 bad members join", "200 subscription changes/s")
        figures = {
            f"victim, {phase}": latencies(probe.latencies_between(begun, ended)) | loop
            for phase, begun, ended, loop in zip(phases, marks, marks[1:], held, strict=False)
        }
        owned = float(sum(member.count for member in members))
        figures[f"victim, {phases[-1]}"]["bad_group_owned_partitions"] = owned
        figures["the changes themselves"] = {
            **latencies(load.changes_taken_s),
            "answered_per_s": len(load.changes_taken_s) / seconds,
        }
        return figures
    finally:
        reactor.close()


def _held(server: Server) -> Figures:
    """Read how long the event loop was blocked recently, from a server that reports it."""
    if not server.metrics:
        return {}
    with urllib.request.urlopen(server.metrics, timeout=10) as answer:
        text = answer.read().decode()
    return {f"loop_held_{name}_ms": float(value) for name, value in LOOP_HELD.findall(text)}


def _changes(
    load: ConsumerLoad, subscriptions: Sequence[tuple[str, ...]], rng: random.Random
) -> Callable[[float], float]:
    begun, made = time.perf_counter(), 0

    def change(now: float) -> float:
        nonlocal made
        while (due := begun + made / CHANGES_PER_SECOND) <= now:
            load.change(rng.choice(load.members), rng.choice(subscriptions))
            made += 1
        return due

    return change


def _topic(number: int) -> str:
    return f"storm-{number:04}"
