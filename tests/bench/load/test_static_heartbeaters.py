"""Light members that ride through a kill, and offsets committed by the thousand."""

import time
from itertools import islice

import pytest

from bench.cases.reload import OURS, THEIRS
from bench.client.blocking_client import BlockingClient
from bench.client.reactor import Reactor
from bench.load.joining import GroupPlan, Joiner
from bench.load.offsets import PARTITIONS, fill, groups_on
from bench.load.static_heartbeaters import StaticHeartbeaters
from failover.routing import partition_for
from tests.waiting import WITHIN_S

MEMBERS = 20
INTERVAL_S = 0.2


@pytest.fixture
def heartbeaters(node):
    """Static members of one group that heartbeat."""
    plan = GroupPlan(group_id="g", topic="t", instance_ids=[f"i{n:02d}" for n in range(MEMBERS)])
    with BlockingClient(node.address) as connection:
        connection.create_topic("t", MEMBERS)
        address = connection.coordinator("g")
    reactor = Reactor()
    joiner = Joiner(plan, reactor, reactor.open(address, MEMBERS))
    joiner.join_all()
    heartbeaters = StaticHeartbeaters(
        reactor, [("127.0.0.1", 1), node.address], INTERVAL_S
    )  # nobody is at the first
    for member in joiner.members:
        heartbeaters.add(member, address)
    yield heartbeaters
    reactor.close()


def all_heard_since(heartbeaters, at):
    return lambda: all(heartbeater.heard_at > at for heartbeater in heartbeaters.heartbeaters)


def test_riders_heartbeat_by_the_interval(heartbeaters):
    began = time.perf_counter()
    assert heartbeaters.run(all_heard_since(heartbeaters, began), WITHIN_S)
    assert heartbeaters.run(all_heard_since(heartbeaters, time.perf_counter()), WITHIN_S)
    assert not heartbeaters.errors
    assert not heartbeaters.run(lambda: False, 0.01)


def test_riders_find_their_coordinator_again_after_a_kill_and_are_still_members(heartbeaters, node):
    assert heartbeaters.run(all_heard_since(heartbeaters, time.perf_counter()), WITHIN_S)
    killed_at = time.perf_counter()
    node.kill()
    assert not heartbeaters.run(all_heard_since(heartbeaters, killed_at), 0.5)
    node.start()
    assert heartbeaters.run(all_heard_since(heartbeaters, killed_at), WITHIN_S)
    assert heartbeaters.errors["connection lost"] >= MEMBERS
    assert set(heartbeaters.errors) <= {
        "connection lost",
        "no coordinator",
        "not_coordinator",
        "coordinator_load_in_progress",
        "coordinator_not_available",
    }


def test_as_many_offsets_as_were_asked_for_are_there(node):
    fill(node.address, groups_on(0, 1, "f"), 2 * PARTITIONS + 1)
    with BlockingClient(node.address) as connection:
        held = [connection.committed_offsets(name) for name in islice(groups_on(0, 1, "f"), 4)]
    assert [len(each) for each in held] == [PARTITIONS, PARTITIONS, PARTITIONS, 0]


def test_groups_are_found_for_one_partition():
    found = list(islice(groups_on(2, 3, "g"), 20))
    assert len(set(found)) == 20
    assert {partition_for(name, 3) for name in found} == {2}


def test_the_time_to_load_is_read_out_of_both_logs():
    assert OURS.search("12:00:00 INFO rollcall.coordinator: loaded in 915 ms")["ms"] == "915"
    found = THEIRS.search(
        "[group-coordinator-event-processor-0] INFO CoordinatorRuntime - [GroupCoordinator id=0] "
        "Finished loading of metadata from __consumer_offsets-0 with epoch 1 in 1192ms where 3ms "
        "was spent in the scheduler. Loaded 100000 records which total to 8 bytes."
    )
    assert found["ms"] == "1192"
    assert found["waited"] == "3"
