"""Share groups through a whole host: routed, written, read again after a restart."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from itertools import chain
from typing import Any

from kio.schema.read_share_group_state.v0 import request as read_request

from failover.partition_kinds import SHARE_STATE
from failover.requests.share_calls import TURN_PARTITIONS
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode
from storage.log import AppendBatch
from tests.failover.apis import asks
from tests.failover.working import Working, working_driver

HEARTBEAT, DESCRIBE = 76, 77


def heartbeat(
    epoch: int, *topics: str, member_id: str = "a", group_id: str = "g"
) -> m.ShareGroupHeartbeatRequest:
    return m.ShareGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        rack_id=None,
        subscribed_topic_names=topics or None,
    )


def beat(driver: Working, epoch: int, *topics: str, member_id: str = "a") -> Any:
    return driver.ask(HEARTBEAT, 1, heartbeat(epoch, *topics, member_id=member_id))


def indexes(answer: Any) -> list[int]:
    return [each for topic in answer.assignment.topic_partitions for each in topic.partitions]


def test_members_share_partitions_and_a_new_process_knows_them() -> None:
    driver = working_driver()
    joined = beat(driver, 0, "t")
    assert (joined.error_code, joined.member_epoch) == (ErrorCode.none, 1)
    driver.work()
    driver.wait(1_100)
    driver.work()
    got = beat(driver, 1)
    assert (got.member_epoch, indexes(got)) == (3, [0, 1, 2, 3])
    steady = beat(driver, 3)
    assert (steady.member_epoch, steady.assignment) == (3, None)
    request = m.ShareGroupDescribeRequest(group_ids=("g", "x"), include_authorized_operations=True)
    one, other = driver.ask(DESCRIBE, 1, request).groups
    assert (one.group_state, one.group_epoch, len(one.members)) == ("Stable", 3, 1)
    assert other.error_code is ErrorCode.group_id_not_found
    later = Working(driver.log)
    later.load()
    assert beat(later, 3).error_code is ErrorCode.none
    group = m.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    (found,) = later.ask(90, 1, m.DescribeShareGroupOffsetsRequest(groups=(group,))).groups
    assert [each.start_offset for each in found.topics[0].partitions] == [-1] * 4


def test_a_share_coordinator_is_found_and_keeps_share_state() -> None:
    driver = working_driver()
    joined = beat(driver, 0, "t")
    assert joined.error_code is ErrorCode.none
    topic = driver.host.view.catalog.topics.by_name("t")
    assert topic is not None
    key = f"g:{urlsafe_b64encode(topic.topic_id.bytes).decode().rstrip('=')}:1"
    find = m.FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))
    (found,) = driver.ask(10, 6, find).coordinators
    assert (found.error_code, found.node_id, found.port) == (ErrorCode.none, 0, 9092)
    data = read_request.ReadStateData(
        topic_id=topic.topic_id,
        partitions=(read_request.PartitionData(partition=1, leader_epoch=0),),
    )
    message = read_request.ReadShareGroupStateRequest(group_id="g", topics=(data,))
    (result,) = driver.ask(84, 0, message).results
    assert [each.error_code for each in result.partitions] == [ErrorCode.none]


def created(driver: Working) -> list[str]:
    """Take out what was written last; the groups of the share state, once for each partition."""
    written, driver.written = driver.written, []
    rows = [
        key
        for writes in written
        for write in writes
        if isinstance(write, AppendBatch) and write.partition in SHARE_STATE.numbers(1)
        for key, value in write.batch.records
        if value is not None and not write.batch.control
    ]
    return [key[4 : 4 + int.from_bytes(key[2:4])].decode() for key in rows]


def test_clients_are_served_while_much_share_state_is_created() -> None:
    """A turn creates a part of it, and a group with little of it waits for a few turns."""
    driver = working_driver()
    for name, partitions in (("many", 1_000), ("few", 3)):
        driver.ask(19, 7, asks.create_topics(name, partitions=partitions))
    driver.give(HEARTBEAT, 1, heartbeat(0, "many", group_id="large"))
    driver.pump()
    driver.give(HEARTBEAT, 1, heartbeat(0, "few", group_id="small"))
    turns = [created(driver)]
    while sum(map(len, turns)) < 1_003:
        assert driver.host.next_deadline() == 0, "the next turn is due at once"
        driver.host.tick(driver.now)
        driver.pump()
        turns.append(created(driver))
    assert max(map(len, turns)) <= TURN_PARTITIONS + 3
    assert "small" in chain(*turns[:4])
    driver.wait(0)
    assert (driver.host.next_deadline() or 1) > 0
