"""Light members that ride through a kill, and offsets committed by the thousand."""

import time
from itertools import islice

import pytest

from bench.cases.reload import OURS, THEIRS
from bench.client.asking import Connection
from bench.client.reactor import Reactor
from bench.load.joining import Joiner, Plan
from bench.load.offsets import PARTITIONS, fill, groups_on
from bench.load.riders import Riders
from failover.routing import partition_for
from tests.waiting import WITHIN_S

MEMBERS = 20
INTERVAL_S = 0.2


@pytest.fixture
def riders(node):
    """Static members of one group that heartbeat."""
    plan = Plan(group_id="g", topic="t", instance_ids=[f"i{n:02d}" for n in range(MEMBERS)])
    with Connection(node.address) as connection:
        connection.create_topic("t", MEMBERS)
        address = connection.coordinator("g")
    reactor = Reactor()
    joiner = Joiner(plan, reactor, reactor.open(address, MEMBERS))
    joiner.join_all()
    riders = Riders(reactor, [("127.0.0.1", 1), node.address], INTERVAL_S)  # nobody is at the first
    for member in joiner.members:
        riders.add(member, address)
    yield riders
    reactor.close()


def all_heard_since(riders, at):
    return lambda: all(rider.heard_at > at for rider in riders.riders)


def test_riders_heartbeat_by_the_interval(riders):
    began = time.perf_counter()
    assert riders.run(all_heard_since(riders, began), WITHIN_S)
    assert riders.run(all_heard_since(riders, time.perf_counter()), WITHIN_S)
    assert not riders.errors
    assert not riders.run(lambda: False, 0.01)


def test_riders_find_their_coordinator_again_after_a_kill_and_are_still_members(riders, node):
    assert riders.run(all_heard_since(riders, time.perf_counter()), WITHIN_S)
    killed_at = time.perf_counter()
    node.kill()
    assert not riders.run(all_heard_since(riders, killed_at), 0.5)
    node.start()
    assert riders.run(all_heard_since(riders, killed_at), 30)
    assert riders.errors["connection lost"] >= MEMBERS
    assert set(riders.errors) <= {
        "connection lost",
        "no coordinator",
        "not_coordinator",
        "coordinator_load_in_progress",
        "coordinator_not_available",
    }


def test_as_many_offsets_as_were_asked_for_are_there(node):
    fill(node.address, groups_on(0, 1, "f"), 2 * PARTITIONS + 1)
    with Connection(node.address) as connection:
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
