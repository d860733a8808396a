"""``kill -9`` of a leader: how long until its members, and a separate prober, are answered again.

*Members*: static members in groups of a hundred, each with its own connection, heartbeat every
three seconds. The leader of the first group is killed; for each member that it coordinated the time
counts from the kill to its next heartbeat answered without error. It includes detection,
reconnecting and the whole storm of the other members.

*Server-side*: every few milliseconds a prober asks the surviving nodes for the coordinator of a
group of the killed leader, and heartbeats there. The time counts from the kill to the first
answered heartbeat. Measured once with few and once with many committed offsets on the partition.
"""

from __future__ import annotations

import time
from array import array
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from bench.client.blocking_client import BlockingClient
from bench.client.reactor import Reactor
from bench.load.joining import GroupPlan, Joiner, JoinError, heartbeat
from bench.load.offsets import fill, groups_on
from bench.load.static_heartbeaters import StaticHeartbeaters
from bench.report.progress import note
from bench.report.rounds import BenchRow, Figures, latencies
from bench.servers.restartable_cluster import each_in_turn, wait_until_whole
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import FindCoordinatorRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.report.rounds import BenchSettings
    from bench.servers.restartable_cluster import Address, RestartableCluster
    from protocol.wire.messages import HeartbeatRequest

CONFIGS: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "0"}
PARTITIONS: Final = 3
MEMBERS: Final = 1_000
MEMBERS_EACH: Final = 100
INTERVAL_S: Final = 3.0
SESSION: Final = timedelta(seconds=45)
"""Kafka's defaults of heartbeat.interval.ms and session.timeout.ms."""
FEWER: Final = 100
"""In the first measurement, the partition has this many times fewer offsets."""
TOPIC: Final = "bench"
PATIENCE_S: Final = 90.0
PROBE_S: Final = 0.002
EXPELLED: Final = ("unknown_member_id", "fenced_instance_id")


def bench_failover(setting: BenchSettings, with_kafka: bool) -> list[BenchRow]:
    """Measure ours, then Kafka: two clusters at once would compete for the CPU."""
    rows = []
    for cluster in each_in_turn(CONFIGS, with_kafka):
        rows += list(_measure(cluster, setting))
    return rows


def _measure(cluster: RestartableCluster, setting: BenchSettings) -> Iterator[BenchRow]:
    members = setting.members or MEMBERS
    with BlockingClient(cluster.bootstrap[0]) as connection:
        connection.create_topic(TOPIC, MEMBERS_EACH)
    measured = _measure_members(cluster, members, setting.rounds)
    yield BenchRow(case=f"{members} static members", server=cluster.name, rounds=tuple(measured))
    group_ids = groups_on(0, PARTITIONS, "offsets")
    held = 0
    for offsets in (setting.records // FEWER, setting.records):
        note(f"{cluster.name}: {offsets} offsets are committed ...")
        fill(cluster.bootstrap[0], group_ids, offsets - held)
        held = offsets
        figures = _probe(cluster, f"probed-{offsets}", setting.kills)
        yield BenchRow(case=f"{offsets} offsets", server=cluster.name, rounds=(figures,))


# --- members


def _measure_members(cluster: RestartableCluster, members: int, rounds: int) -> list[Figures]:
    reactor = Reactor()
    heartbeaters = StaticHeartbeaters(reactor, cluster.bootstrap, INTERVAL_S)
    figures = []
    note(f"{cluster.name}: {members} static members join ...")
    try:
        for number in range(-(-members // MEMBERS_EACH)):
            size = min(MEMBERS_EACH, members - number * MEMBERS_EACH)
            _join(cluster, heartbeaters, reactor, _plan(f"heartbeaters-{number}", size))
        for _ in range(rounds):
            figures.append(_kill_under(cluster, heartbeaters))
    finally:
        reactor.close()
    return figures


def _plan(group_id: str, size: int) -> GroupPlan:
    return GroupPlan(
        group_id=group_id,
        topic=TOPIC,
        instance_ids=[f"{group_id}-{index:03d}" for index in range(size)],
        session=SESSION,
    )


def _join(
    cluster: RestartableCluster, heartbeaters: StaticHeartbeaters, reactor: Reactor, plan: GroupPlan
) -> None:
    """Bring one group up and add its members; the members added before keep heartbeating."""
    with BlockingClient(cluster.bootstrap[0]) as connection:
        address = connection.coordinator(plan.group_id)
    joiner = Joiner(plan, reactor, reactor.open(address, len(plan.instance_ids)))
    joiner.join_all()
    for member in joiner.members:
        heartbeaters.add(member, address)
    heartbeaters.run(lambda: False, 0.01)


def _kill_under(cluster: RestartableCluster, heartbeaters: StaticHeartbeaters) -> Figures:
    """Kill the leader of the first group; return the results of its members."""
    begun = time.perf_counter()
    if not heartbeaters.run(
        lambda: all(each.address and each.heard_at > begun for each in heartbeaters.heartbeaters),
        PATIENCE_S,
    ):
        raise JoinError("Not every member was answered a heartbeat before the kill.")
    heartbeaters.errors.clear()
    target = heartbeaters.heartbeaters[0].address
    assert target is not None
    hit = [each for each in heartbeaters.heartbeaters if each.address == target]
    note(f"{cluster.name}: the leader of {len(hit)} members is killed ...")
    killed_at = time.perf_counter()
    cluster.kill(target)
    heartbeaters.run(lambda: all(each.heard_at > killed_at for each in hit), PATIENCE_S)
    taken = array("d", (each.heard_at - killed_at for each in hit if each.heard_at > killed_at))
    errors = dict(heartbeaters.errors)
    cluster.start_again(target)
    deadline = time.monotonic() + PATIENCE_S
    while not cluster.is_whole() and time.monotonic() < deadline:
        heartbeaters.run(lambda: False, 0.5)
    heartbeaters.run(lambda: False, INTERVAL_S)
    return {
        "members_hit": float(len(hit)),
        "members_unheard": float(len(hit) - len(taken)),
        **latencies(taken or array("d", (float("inf"),))),
        "told_to_rebalance": float(heartbeaters.errors["rebalance_in_progress"]),
        "expelled": float(sum(heartbeaters.errors[name] for name in EXPELLED)),
        "retries": float(sum(errors.values()) - errors.get("connection lost", 0)),
    }


# --- the prober


def _probe(cluster: RestartableCluster, group_id: str, kills: int) -> Figures:
    """Kill the leader of one group repeatedly; return for how long no node answers."""
    wait_until_whole(cluster)
    name = next(groups_on(0, PARTITIONS, group_id))
    beat = _member(cluster, name)
    taken = array("d")
    for number in range(kills):
        note(f"{cluster.name}: kill {number + 1} of {kills} ...")
        with BlockingClient(cluster.bootstrap[0]) as connection:
            target = connection.coordinator(name)
        taken.append(_time_to_answer(cluster, target, beat))
        cluster.start_again(target)
        time.sleep(1)
        wait_until_whole(cluster)
    return {"kills": float(kills), **latencies(taken)}


def _member(cluster: RestartableCluster, group_id: str) -> HeartbeatRequest:
    """Create a group of one member; return its heartbeat."""
    plan = GroupPlan(group_id=group_id, topic=TOPIC, instance_ids=(f"{group_id}-0",))
    with BlockingClient(cluster.bootstrap[0]) as connection:
        address = connection.coordinator(group_id)
    reactor = Reactor()
    try:
        joiner = Joiner(plan, reactor, reactor.open(address, 1))
        joiner.join_all()
        return heartbeat(joiner.members[0])
    finally:
        reactor.close()


def _time_to_answer(cluster: RestartableCluster, target: Address, beat: HeartbeatRequest) -> float:
    """Kill; return the seconds until a node answers a heartbeat of the group without error."""
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=(beat.group_id,))
    with ExitStack() as stack:
        nodes = {
            address: stack.enter_context(BlockingClient(address))
            for address in cluster.bootstrap
            if address != target
        }
        survivors = tuple(nodes.values())
        for connection in survivors:
            connection.ask(find)
        killed_at = time.perf_counter()
        cluster.kill(target)
        while time.perf_counter() - killed_at < PATIENCE_S:
            for connection in survivors:
                if _answers(connection, nodes, find, beat):
                    return time.perf_counter() - killed_at
            time.sleep(PROBE_S)
    raise JoinError(f"Nobody answered for the killed node within {PATIENCE_S:g} s.")


def _answers(
    connection: BlockingClient,
    nodes: Mapping[Address, BlockingClient],
    find: FindCoordinatorRequest,
    beat: HeartbeatRequest,
) -> bool:
    """Ask one node for the coordinator, and heartbeat there; the killed node itself may be back."""
    found = connection.ask(find).coordinators[0]
    if found.error_code:
        return False
    address = found.host, found.port
    try:
        with ExitStack() as stack:
            leader = nodes.get(address) or stack.enter_context(BlockingClient(address))
            error = leader.ask(beat).error_code
    except OSError:
        return False
    if error and not error.retriable:
        raise KafkaError(error, "the prober's member is not known any more")
    return error is ErrorCode.none
