"""The effect of a noisy group on another group of the same coordinator (KIP-1263).

On one coordinator, a group of 20 members heartbeats quietly. Then 1,000 members of another group
join at once; and when they have converged, some of them change every second. The latencies of the
quiet group are measured in each phase, and in the last one also those of the changes themselves.
:data:`STORMS` has the noisy groups by type.
"""

from __future__ import annotations

import random
import re
import time
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.waiting import poll
from bench.client.blocking_client import BlockingClient
from bench.client.reactor import Reactor
from bench.load.kinds import LOAD_KINDS
from bench.load.modern_members import LoadMember, MemberLoad, is_settled
from bench.load.probe_group import MEMBERS, TOPIC, running_probe_group
from bench.report.progress import note
from bench.report.rounds import BenchRow, Figures, latencies
from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.report.rounds import BenchSettings
    from bench.servers.server import Server

NOISY_MEMBERS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """One noisy group: its topics, and how many of them a member reads.

    ``partitions``: of each topic, unless asked. ``about_changes``: what changes of members are.
    """

    group_type: str
    topics: int
    partitions: int
    topics_each: int
    changes_per_s: int
    about_changes: str

    @property
    def phases(self) -> tuple[str, str, str]:
        """The names of the phases."""
        changes = f"{self.changes_per_s} {self.about_changes}/s"
        return "quiet", f"while {NOISY_MEMBERS:,} bad members join", changes


STORMS: Final[Mapping[str, Storm]] = {
    "consumer": Storm(
        group_type="consumer",
        topics=1_000,
        partitions=50,
        topics_each=100,
        changes_per_s=200,
        about_changes="subscription changes",
    ),
    "share": Storm(
        group_type="share",
        topics=1_000,
        partitions=50,
        topics_each=100,
        changes_per_s=50,
        about_changes="subscription changes",
    ),
    "streams": Storm(
        group_type="streams",
        topics=50,
        partitions=1_000,
        topics_each=50,
        changes_per_s=50,
        about_changes="members replaced",
    ),
}
"""By type. A member of a streams group reads a topic by a subtopology with state, whose tasks have
a standby each; it cannot change its topics, so it leaves, and another one joins."""

JOINING_SECONDS: Final = 10.0
QUIET_SECONDS: Final = 5.0
CALM_CPUS: Final = 0.5
"""A server that uses less than that has created its topics."""

LOOK_S: Final = 2.0
CALM_SECONDS: Final = 300.0
SEED: Final = 1263
LOOP_HELD: Final = re.compile(r"event_loop_held_time_ms_(p99|p999|max)\{.*\} (\S+)")


def bench_noisy_neighbour(
    group_type: str, servers: Sequence[Server], setting: BenchSettings
) -> list[BenchRow]:
    """Measure the quiet, the join and the change phase on every server, one after the other."""
    storm = STORMS[group_type]
    rows: list[BenchRow] = []
    for server in servers:
        _create_topics(server, storm, setting.partitions or storm.partitions)
    for server in servers:
        rounds = [
            _one_round(server, storm, f"storm-{n}", setting.seconds) for n in range(setting.rounds)
        ]
        for case in rounds[0]:
            figures = tuple(each[case] for each in rounds)
            rows.append(BenchRow(case=case, server=server.name, rounds=figures))
    return rows


def _create_topics(server: Server, storm: Storm, partitions: int) -> None:
    with BlockingClient(server.address) as connection:
        for name in LOAD_KINDS[storm.group_type].topics_for(TOPIC):
            connection.create_topic(name, MEMBERS)
        connection.coordinator(TOPIC)
        _settle_one_member(server, storm.group_type)
        for name in _topic_names(storm):
            connection.create_topic(name, partitions)
    _wait_until_calm(server)


def _wait_until_calm(server: Server) -> None:
    """Wait until the server does little: Kafka's brokers create partitions for minutes."""
    before = server.cpu_seconds()

    def is_calm() -> bool:
        nonlocal before
        last, before = before, server.cpu_seconds()
        return before - last < CALM_CPUS * LOOK_S

    time.sleep(LOOK_S)
    if not poll(is_calm, CALM_SECONDS, every_s=LOOK_S):
        raise StartError(f"{server.name} was still busy with its topics after {CALM_SECONDS:g} s.")


def _topic_names(storm: Storm) -> list[str]:
    topics_for = LOAD_KINDS[storm.group_type].topics_for
    return [name for number in range(storm.topics) for name in topics_for(_topic(number))]


def partition_count(group_type: str, setting: BenchSettings) -> int:
    """Return how many partitions the topics of the noisy group have in all."""
    storm = STORMS[group_type]
    return len(_topic_names(storm)) * (setting.partitions or storm.partitions)


def _settle_one_member(server: Server, group_type: str) -> None:
    """Let a group of the type get partitions: Kafka then has its internal topics.

    While it creates topics it answers late, and does not find its own share coordinator.
    """
    reactor = Reactor()
    try:
        load = MemberLoad(reactor)
        kind = LOAD_KINDS[group_type]
        (channel,) = reactor.open(server.address, 1)
        member = LoadMember("first", "first", (TOPIC,), channel, kind)
        load.add([member])
        load.settle(lambda: is_settled([member], MEMBERS))
    finally:
        reactor.close()


def _one_round(server: Server, storm: Storm, group_id: str, seconds: float) -> dict[str, Figures]:
    rng = random.Random(SEED)
    kind = LOAD_KINDS[storm.group_type]
    subscriptions = [
        tuple(sorted(_topic(n) for n in rng.sample(range(storm.topics), storm.topics_each)))
        for _ in range(NOISY_MEMBERS)
    ]
    reactor = Reactor()
    load = MemberLoad(reactor)
    marks, held = [], []
    try:
        channels = reactor.open(server.address, NOISY_MEMBERS)
        members = [
            LoadMember(group_id, f"{group_id}-{n:04}", subscriptions[n], each, kind)
            for n, each in enumerate(channels)
        ]
        with running_probe_group(server.address, f"victim-of-{group_id}") as probe:
            quiet, joining, changing = storm.phases
            note(f"{server.name}: {quiet} ...")
            marks.append(time.perf_counter())
            time.sleep(QUIET_SECONDS)  # this is measured: an idle server
            marks.append(time.perf_counter())
            held.append(_held(server))
            note(f"{server.name}: {joining} ...")
            load.add(members)
            load.run(JOINING_SECONDS)
            marks.append(time.perf_counter())
            held.append(_held(server))
            note(f"{server.name}: {changing} ...")
            load.run(seconds, _changes(load, storm.changes_per_s, subscriptions, rng))
            marks.append(time.perf_counter())
            held.append(_held(server))
            probe.stop()
        phases = storm.phases
        figures = {
            f"victim, {phase}": latencies(probe.latencies_between(begun, ended)) | loop
            for phase, begun, ended, loop in zip(phases, marks, marks[1:], held, strict=False)
        }
        owned = float(sum(member.count for member in members))
        figures[f"victim, {phases[-1]}"]["bad_group_owned_partitions"] = owned
        taken = load.changes_taken_s
        figures["the changes themselves"] = {
            **(latencies(taken) if taken else {}),  # a server may answer none of them in time
            "answered_per_s": len(taken) / seconds,
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
    load: MemberLoad, per_second: int, subscriptions: Sequence[tuple[str, ...]], rng: random.Random
) -> Callable[[float], float]:
    begun, made = time.perf_counter(), 0

    def change(now: float) -> float:
        nonlocal made
        while (due := begun + made / per_second) <= now:
            load.change(rng.choice(load.members), rng.choice(subscriptions))
            made += 1
        return due

    return change


def _topic(number: int) -> str:
    return f"storm-{number:04}"
