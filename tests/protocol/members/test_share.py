"""A member of a share group joins, takes what it is given beside others, and comes back."""

import random
import uuid
from datetime import timedelta
from typing import Any

import pytest

from protocol.members.client import BrokerNode, Outgoing, State
from protocol.members.kinds import kind_of
from protocol.members.share import ShareMember, ShareMemberConfig
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareHeartbeatAssignment,
    ShareHeartbeatTopicPartitions,
)
from tests.protocol.members.fleet import Fleet

TOPIC = uuid.UUID(int=7)
E = ErrorCode


def member(**settings: Any) -> ShareMember:
    config = ShareMemberConfig(group_id="g", topics=("t",), **settings)
    one = ShareMember(config, random.Random(1), {TOPIC: "t"})
    one.coordinator = BrokerNode(1, "h", 9)
    return one


def asked(one: ShareMember, now: int) -> Outgoing:
    [outgoing] = one.poll(now)
    assert isinstance(outgoing.message, ShareGroupHeartbeatRequest)
    return outgoing


def heartbeat(
    one: ShareMember,
    now: int,
    epoch: int = 1,
    partitions: tuple[int, ...] | None = None,
    error: ErrorCode = E.none,
) -> ShareGroupHeartbeatRequest:
    outgoing = asked(one, now)
    assignment = None
    if partitions is not None:
        row = ShareHeartbeatTopicPartitions(topic_id=TOPIC, partitions=partitions)
        assignment = ShareHeartbeatAssignment(topic_partitions=(row,) if partitions else ())
    response = ShareGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        member_id=one.member_id,
        member_epoch=epoch,
        heartbeat_interval=timedelta(milliseconds=5_000),
        assignment=assignment,
    )
    one.receive(outgoing, response, now)
    message: ShareGroupHeartbeatRequest = outgoing.message
    return message


def test_the_first_heartbeat_tells_everything_and_an_assignment_is_confirmed_at_once() -> None:
    one = member(rack_id="r")
    first = heartbeat(one, 0, epoch=2, partitions=(0, 1))
    assert (first.member_epoch, first.subscribed_topic_names, first.rack_id) == (0, ("t",), "r")
    assert one.partitions == (("t", 0), ("t", 1))
    confirms = heartbeat(one, 0, epoch=2)
    assert (confirms.member_epoch, confirms.subscribed_topic_names, confirms.rack_id) == (
        2,
        None,
        None,
    )
    assert one.poll(4_999) == []
    heartbeat(one, 5_000, epoch=2)


def test_a_new_subscription_is_told_at_once() -> None:
    one = member()
    heartbeat(one, 0, epoch=2)
    one.subscribe(("t", "u"))
    assert heartbeat(one, 1, epoch=2).subscribed_topic_names == ("t", "u")
    assert heartbeat(one, 6_000, epoch=2).subscribed_topic_names is None


def test_a_member_leaves_with_epoch_minus_one_and_commits_nothing() -> None:
    one = member()
    heartbeat(one, 0, epoch=2, partitions=(0,))
    heartbeat(one, 0, epoch=2)
    one.commit({("t", 0): 5})
    assert one.poll(1) == []
    assert not kind_of(one.config).commits
    one.leave()
    assert heartbeat(one, 1, epoch=-1, error=E.group_id_not_found).member_epoch == -1
    assert one.state is State.LEFT


@pytest.mark.parametrize(
    ("error", "state", "epoch"),
    [
        (E.fenced_member_epoch, State.UNJOINED, 0),
        (E.unknown_member_id, State.UNJOINED, 0),
        (E.coordinator_load_in_progress, State.STABLE, 2),
        (E.coordinator_not_available, State.STABLE, 2),
        (E.not_coordinator, State.STABLE, 2),
        (E.topic_authorization_failed, State.STABLE, 2),
        (E.group_authorization_failed, State.FAILED, 2),
        (E.invalid_request, State.FAILED, 2),
        (E.group_max_size_reached, State.FAILED, 2),
        (E.unsupported_version, State.FAILED, 2),
        (E.group_id_not_found, State.FAILED, 2),
        (E.unknown_server_error, State.FAILED, 2),
    ],
)
def test_each_error_has_its_action(error: ErrorCode, state: State, epoch: int) -> None:
    one = member()
    heartbeat(one, 0, epoch=2, partitions=(0,))
    heartbeat(one, 0, error=error)
    assert (one.state, one.generation) == (state, epoch)
    assert bool(one.partitions) is (epoch == 2)


def test_a_fenced_member_joins_again_under_its_id() -> None:
    one = member()
    heartbeat(one, 0, epoch=2)
    member_id = one.member_id
    heartbeat(one, 5_000, error=E.fenced_member_epoch)
    again = heartbeat(one, 5_000, epoch=4, partitions=(0,))
    assert (again.member_epoch, again.member_id) == (0, member_id)
    assert again.subscribed_topic_names == ("t",)


def test_members_of_a_share_group_have_partitions_together() -> None:
    fleet = Fleet(topics={"a": 2}, is_prompt=True)
    config = ShareMemberConfig(group_id="g", topics=("a",), heartbeat_interval_ms=500)
    for number in range(3):
        fleet.add(f"m{number}", config)
    fleet.run(10)
    assert sum(fleet.shares()) >= 3
    assert min(fleet.shares()) >= 1
    owned = {each for one in fleet.members.values() for each in one.partitions}
    assert owned == {("a", 0), ("a", 1)}
    fleet.members["m0"].leave()
    fleet.run(10)
    assert sum(fleet.shares()) >= 2
