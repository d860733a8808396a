"""A member of a consumer group says what has changed, takes what it is given, and comes back."""

import random
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from protocol.members.client import Outgoing, State
from protocol.members.consumer import ConsumerMember, ConsumerMemberConfig
from protocol.members.history import MemberHistoryKind
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    AssignedTopicPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatAssignment,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC = uuid.UUID(int=7)
ANSWER = ConsumerGroupHeartbeatResponse(
    throttle_time=NO_THROTTLE,
    error_code=ErrorCode.none,
    member_epoch=1,
    heartbeat_interval=timedelta(milliseconds=5_000),
)


def member(**settings: Any) -> ConsumerMember:
    config = ConsumerMemberConfig(group_id="g", topics=("t",), **settings)
    return ConsumerMember(config, random.Random(1), {TOPIC: "t"})


def asked(one: ConsumerMember, now: int) -> Outgoing:
    [outgoing] = one.poll(now)
    return outgoing


def found(one: ConsumerMember, now: int = 0) -> None:
    outgoing = asked(one, now)
    assert isinstance(outgoing.message, FindCoordinatorRequest)
    at = Coordinator(
        key="g", node_id=1, host="h", port=9, error_code=ErrorCode.none, error_message=None
    )
    answer = FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=(at,))
    one.receive(outgoing, answer, now)


def heartbeat(
    one: ConsumerMember,
    now: int,
    epoch: int = 1,
    partitions: tuple[int, ...] | None = None,
    error: ErrorCode = ErrorCode.none,
) -> ConsumerGroupHeartbeatRequest:
    outgoing = asked(one, now)
    assert isinstance(outgoing.message, ConsumerGroupHeartbeatRequest)
    assignment = None
    if partitions is not None:
        row = AssignedTopicPartitions(topic_id=TOPIC, partitions=partitions)
        assignment = HeartbeatAssignment(topic_partitions=(row,) if partitions else ())
    response = replace(
        ANSWER, error_code=error, member_id=one.member_id, member_epoch=epoch, assignment=assignment
    )
    one.receive(outgoing, response, now)
    return outgoing.message


def test_the_first_heartbeat_tells_everything_and_the_next_ones_only_what_changed() -> None:
    one = member(rack_id="r", server_assignor="range")
    found(one)
    first = heartbeat(one, 0, epoch=2, partitions=(0, 1))
    assert (first.member_epoch, first.topic_partitions) == (0, ())
    assert (first.subscribed_topic_names, first.rack_id) == (("t",), "r")
    assert first.rebalance_timeout == timedelta(milliseconds=300_000)
    acknowledgement = heartbeat(one, 0, epoch=2)
    assert acknowledgement.member_epoch == 2
    assert acknowledgement.subscribed_topic_names is None
    assert acknowledgement.topic_partitions is not None
    assert acknowledgement.topic_partitions[0].partitions == (0, 1)
    assert one.poll(4_999) == []
    quiet = heartbeat(one, 5_000, epoch=2)
    assert quiet.topic_partitions is None
    assert one.partitions == (("t", 0), ("t", 1))
    assert [event.kind for event in one.history][:2] == [
        MemberHistoryKind.JOINED,
        MemberHistoryKind.ASSIGNED,
    ]


def test_topics_given_up_for_a_regex_are_told_once() -> None:
    one = member(topic_regex="t.*")
    found(one)
    heartbeat(one, 0, epoch=2)
    one.subscribe(())
    told = heartbeat(one, 0, epoch=2)
    assert told.subscribed_topic_names == ()
    assert one.poll(4_999) == []
    quiet = heartbeat(one, 5_000, epoch=2)
    assert quiet.subscribed_topic_names is None


def test_after_a_lost_answer_everything_is_told_again() -> None:
    one = member()
    found(one)
    heartbeat(one, 0, epoch=2, partitions=(3,))
    outgoing = asked(one, 0)
    one.lost(outgoing, 0)
    assert one.next_deadline() is not None
    found(one, 1_000)
    again = heartbeat(one, 1_000, epoch=2)
    assert again.subscribed_topic_names == ("t",)
    assert again.topic_partitions is not None
    assert again.topic_partitions[0].partitions == (3,)


def test_a_fenced_member_gives_its_partitions_up_and_joins_with_the_same_id() -> None:
    one = member()
    found(one)
    heartbeat(one, 0, epoch=2, partitions=(3,))
    heartbeat(one, 0, error=ErrorCode.fenced_member_epoch)
    assert one.partitions == ()
    joining = heartbeat(one, 0, epoch=5)
    assert (joining.member_epoch, joining.member_id) == (0, one.member_id)


def test_the_next_heartbeat_is_due_an_interval_after_the_last_one_was_sent() -> None:
    one = member(heartbeat_interval_ms=5_000)
    found(one)
    heartbeat(one, 0)
    outgoing = asked(one, 5_000)
    one.receive(outgoing, replace(ANSWER, member_id=one.member_id), 7_000)
    assert one.next_deadline() == 10_000


def test_a_static_member_leaves_for_a_while() -> None:
    one = member(instance_id="i")
    found(one)
    heartbeat(one, 0, epoch=2)
    one.leave()
    leaving = heartbeat(one, 0)
    assert (leaving.member_epoch, leaving.instance_id) == (-2, "i")
    assert one.state is State.LEFT


@pytest.mark.parametrize("taken", [ErrorCode.fenced_instance_id, ErrorCode.unreleased_instance_id])
def test_a_member_whose_instance_id_another_one_has_fails_for_good(taken: ErrorCode) -> None:
    one = member(instance_id="i")
    found(one)
    heartbeat(one, 0, error=taken)
    assert one.state is State.FAILED
    assert one.next_deadline() is None


def test_a_dynamic_member_leaves_with_epoch_minus_one() -> None:
    one = member()
    found(one)
    heartbeat(one, 0, epoch=2)
    one.leave()
    assert heartbeat(one, 0).member_epoch == -1
    assert one.is_done


def test_a_new_subscription_is_told_at_once() -> None:
    one = member()
    found(one)
    heartbeat(one, 0, epoch=2)
    one.subscribe(("t", "u"))
    assert heartbeat(one, 1, epoch=2).subscribed_topic_names == ("t", "u")
    assert heartbeat(one, 6_000, epoch=2).subscribed_topic_names is None


def test_a_commit_of_a_stale_epoch_asks_for_the_new_one() -> None:
    one = member()
    found(one)
    heartbeat(one, 0, epoch=2, partitions=(0,))
    heartbeat(one, 0, epoch=2)
    one.commit({("t", 0): 5, ("t", 9): 1})
    outgoing = asked(one, 10)
    assert isinstance(outgoing.message, OffsetCommitRequest)
    assert outgoing.message.generation_id_or_member_epoch == 2
    [topic] = outgoing.message.topics
    assert [partition.partition_index for partition in topic.partitions] == [0]
    refused = OffsetCommitResponsePartition(
        partition_index=0, error_code=ErrorCode.stale_member_epoch
    )
    row = OffsetCommitResponseTopic(name="t", topic_id=None, partitions=(refused,))
    response = OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=(row,))
    one.receive(outgoing, response, 10)
    heartbeat(one, 10, epoch=3)
    assert one.generation == 3


def test_a_member_that_revokes_slowly_keeps_its_partitions_and_reports_them_released_then() -> None:
    one = member(revocation_ms=7_000)
    found(one)
    heartbeat(one, 0, epoch=2, partitions=(0, 1))
    heartbeat(one, 0, epoch=2)
    assert heartbeat(one, 5_000, epoch=2, partitions=(0,)).topic_partitions is None
    assert one.partitions == (("t", 0), ("t", 1))
    assert heartbeat(one, 10_000, epoch=2).topic_partitions is None
    assert one.next_deadline() == 12_000
    assert one.poll(11_999) == []
    released = heartbeat(one, 12_000, epoch=3)
    assert released.topic_partitions is not None
    assert released.topic_partitions[0].partitions == (0,)
    assert one.partitions == (("t", 0),)


def test_a_member_that_revokes_slowly_takes_the_newest_assignment_over() -> None:
    one = member(revocation_ms=7_000)
    found(one)
    heartbeat(one, 0, epoch=2, partitions=(0, 1))
    heartbeat(one, 0, epoch=2)
    heartbeat(one, 5_000, epoch=2, partitions=(0,))
    heartbeat(one, 10_000, epoch=3, partitions=(2,))
    released = heartbeat(one, 12_000, epoch=3)
    assert released.topic_partitions is not None
    assert released.topic_partitions[0].partitions == (2,)


def test_a_member_that_is_fenced_while_it_revokes_has_nothing_left_to_revoke() -> None:
    one = member(revocation_ms=7_000)
    found(one)
    heartbeat(one, 0, epoch=2, partitions=(0, 1))
    heartbeat(one, 0, epoch=2)
    heartbeat(one, 5_000, epoch=2, partitions=(0,))
    heartbeat(one, 10_000, error=ErrorCode.fenced_member_epoch)
    assert heartbeat(one, 10_000, epoch=5, partitions=(3,)).member_epoch == 0
    assert one.partitions == (("t", 3),)
    heartbeat(one, 10_000, epoch=5)
    assert one.poll(12_000) == []
