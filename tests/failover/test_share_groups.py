"""Share groups through a whole host: routed, written, read again after a restart."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

from kio.schema.read_share_group_state.v0 import request as read_request

from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode
from tests.failover.working import Working, working_driver

HEARTBEAT, DESCRIBE = 76, 77


def beat(driver: Working, epoch: int, *topics: str, member_id: str = "a") -> Any:
    message = m.ShareGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        rack_id=None,
        subscribed_topic_names=topics or None,
    )
    return driver.ask(HEARTBEAT, 1, message)


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
