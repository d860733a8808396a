"""Clients of three libraries ride through ``kill -9`` of the process that leads their groups.

Three coordinators, each partition on all of them. All groups are on one partition, so that one kill
meets them all at once; the next comes when everything is in sync again. Each library has a group of
static and a group of dynamic members, which commit all the while.

``ROLLCALL_LEADER_KILLS`` says how many kills (20 before a release).
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.clients import servers, wire
from tests.clients.confluent import create_topics, partitions_of
from tests.clients.riding import (
    CLIENTS,
    Offsets,
    Riders,
    acknowledged,
    are_shared_out,
    group_on_partition_0,
    invented,
    lost,
    wait_until_committing,
)
from tests.waiting import LONG_SESSION_MS, patient, until

KILLS = int(os.environ.get("ROLLCALL_LEADER_KILLS", "2"))
REPLICATED_S = patient(60)
BACK_S = patient(30)
TOPIC = "leader-kills"
PARTITIONS = 4
KINDS = ("static", "dynamic")
TIMES = {"session.timeout.ms": str(LONG_SESSION_MS), "heartbeat.interval.ms": "500"}

pytestmark = [
    pytest.mark.timeout(180 + 90 * KILLS),
    pytest.mark.skipif(servers.is_kafka(), reason="one broker of Kafka has no replicas"),
]


@dataclass
class Group:
    """What a group was before the kills and after them, as its coordinator says."""

    generations: list[int] = field(default_factory=list)
    described: list[Any] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def look(self, bootstrap: str, group_id: str) -> None:
        """Note the state of now."""
        self.described.append(wire.describe(bootstrap, group_id))
        self.generations.append(wire.generation_of(bootstrap, group_id))


@dataclass
class Ride:
    """The members of every library, their groups, and the longest silence of each group by kill."""

    riders: dict[str, Riders]
    groups: dict[str, Group]
    gaps_ms: list[dict[str, int]] = field(default_factory=list)


@pytest.fixture(scope="module")
def ride(doomed: servers.RollcallServer) -> Iterator[Ride]:
    """Kill as often as asked, with all three libraries riding."""
    with ExitStack() as stack:
        until(doomed.is_replicated, REPLICATED_S, "every partition is in sync")
        create_topics(doomed.bootstrap, [TOPIC], PARTITIONS)
        riders = {}
        for client in CLIENTS:
            riders[client] = board(doomed.bootstrap, client)
            stack.callback(riders[client].kill)
        made = Ride(riders, {g: Group() for one in riders.values() for g in one.groups()})
        wait_until_settled(doomed.bootstrap, made)
        ride_through(doomed, made)
        yield made


def board(bootstrap: str, client: str) -> Riders:
    """Start two members of a static and two of a dynamic group of one library."""
    members = [
        (
            f"{kind}-{i}",
            group_on_partition_0(f"{client}-{kind}"),
            f"i-{i}" if kind == "static" else None,
        )
        for kind in KINDS
        for i in range(2)
    ]
    return Riders(client, bootstrap, TOPIC, members, settings=TIMES)


def wait_until_settled(bootstrap: str, made: Ride) -> None:
    """Wait until each group is Stable and evenly shared out; from then on everything counts."""
    everything = partitions_of([TOPIC], PARTITIONS)
    for client, riders in made.riders.items():
        for group_id in riders.groups():

            def is_settled(riders: Riders = riders, group_id: str = group_id) -> bool:
                riders.check()
                return (
                    are_shared_out(riders.of(group_id), everything)
                    and wire.describe(bootstrap, group_id).group_state == "Stable"
                )

            until(is_settled, REPLICATED_S, f"{client} has shared out the topic")
    for riders in made.riders.values():  # later: a client's leader may join a second time at first
        for life in riders.lives.values():
            life.forget()
        for group_id in riders.groups():
            made.groups[group_id].look(bootstrap, group_id)


def ride_through(doomed: servers.RollcallServer, made: Ride) -> None:
    """Kill, see that all go on and that nothing is lost, wait for the replicas, and again."""
    everyone = list(made.riders.values())
    for number in range(KILLS):
        until(doomed.is_replicated, REPLICATED_S, f"all replicas are in sync before kill {number}")
        wait_until_committing(everyone, f"before kill {number}", BACK_S)
        promised = promises(everyone)
        for riders in everyone:
            for life in riders.lives.values():
                life.longest_gap_ms = 0
        doomed.kill_coordinator(next(iter(made.groups)))
        wait_until_committing(everyone, f"after kill {number}", BACK_S)
        made.gaps_ms.append(
            {
                group_id: max(life.longest_gap_ms for life in riders.of(group_id))
                for riders in everyone
                for group_id in riders.groups()
            }
        )
        for group_id, group in made.groups.items():
            group.lost += lost(doomed.bootstrap, group_id, promised[group_id])
    for group_id, group in made.groups.items():
        group.look(doomed.bootstrap, group_id)


def promises(everyone: Sequence[Riders]) -> dict[str, Offsets]:
    """Give what was acknowledged so far, by group."""
    return {g: acknowledged(one.of(g)) for one in everyone for g in one.groups()}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_rides_through_kills_of_its_leader(
    doomed: servers.RollcallServer, ride: Ride, client: str
) -> None:
    riders = ride.riders[client]
    static, dynamic = riders.groups()
    told(ride, client)

    before, after = ride.groups[static].described
    assert after.group_state == "Stable"
    assert sorted(after.members, key=str) == sorted(before.members, key=str)
    assert len(set(ride.groups[static].generations)) == 1
    assert [life.callbacks for life in riders.of(static)] == [[], []]

    generations = ride.groups[dynamic].generations
    assert generations[1] - generations[0] <= 1
    assert all(life.rejoins() <= 1 for life in riders.of(dynamic))
    assert not any(event == "LOST" for life in riders.of(dynamic) for event, _ in life.callbacks)

    riders.stop()
    for group_id in (static, dynamic):
        lives = riders.of(group_id)
        group_lost = ride.groups[group_id].lost + lost(
            doomed.bootstrap, group_id, acknowledged(lives)
        )
        assert not group_lost
        assert not invented(doomed.bootstrap, lives)


def told(ride: Ride, client: str) -> None:
    """Print what became of each kind of member."""
    for group_id, kind in zip(ride.riders[client].groups(), KINDS, strict=True):
        lives = ride.riders[client].of(group_id)
        gaps = sorted(one[group_id] for one in ride.gaps_ms)
        print(  # noqa: T201
            f"{client} {kind}: {KILLS} kills,"
            f" gap between commits median {gaps[len(gaps) // 2]} ms, longest {gaps[-1]} ms,"
            f" {sum(life.rejoins() for life in lives)} rejoins,"
            f" {sum(life.commits for life in lives)} commits,"
            f" trouble {[dict(life.trouble) for life in lives if life.trouble]}"
        )
