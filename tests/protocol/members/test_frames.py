"""Members that write frames, held against the same members that write messages."""

import contextlib
import random
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from protocol.client.frames import frame_of
from protocol.members.assignor import Subscriber
from protocol.members.classic import ClassicMember, MemberConfig
from protocol.members.client import BrokerNode, MemberClient, State
from protocol.members.consumer import ConsumerMember, ConsumerMemberConfig
from protocol.members.frames import (
    ClassicFrames,
    ConsumerFrames,
    GroupFrames,
    partitions_in,
    read_answer,
)
from protocol.members.modern_frames import ShareFrames, StreamsFrames
from protocol.members.requests import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, JOIN_GROUP
from protocol.members.share import SHARE_GROUP_HEARTBEAT, ShareMember, ShareMemberConfig
from protocol.members.streams import StreamsMember, StreamsMemberConfig
from protocol.members.streams_answer import tasks_in
from protocol.members.streams_requests import STREAMS_GROUP_HEARTBEAT
from protocol.members.topology import subtopology
from protocol.wire import compact
from protocol.wire.convert import blank
from protocol.wire.embedded import encode_assignment
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import BadFrame, decode_request, encode_response
from protocol.wire.messages import (
    NO_THROTTLE,
    AssignedTopicPartitions,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    OffsetCommitResponse,
    ShareGroupHeartbeatResponse,
    ShareHeartbeatAssignment,
    ShareHeartbeatTopicPartitions,
    SyncGroupResponse,
)
from protocol.wire.streams_messages import (
    AssignedTaskIds,
    StreamsGroupHeartbeatResponse,
    StreamsStatus,
    StreamsTopology,
)

E = ErrorCode
PARTITIONS = {"t": 4}
VERSIONS = {8: 9, 11: 9, 12: 4, 13: 5, 14: 5, 68: 1, 76: 1, 88: 0}
CLIENT = "a client"
TOPIC = UUID(int=7)
NODE = BrokerNode(0, "h", 1)


class Twins:
    """A member that writes messages and one that writes frames, told the same."""

    def __init__(self, plain: MemberClient, light: MemberClient) -> None:
        self.plain, self.light = plain, light
        self.now = 0
        plain.coordinator = light.coordinator = NODE

    def say(self) -> Any:
        """Both send the same bytes; return the message."""
        (said,), (framed,) = self.plain.poll(self.now), self.light.poll(self.now)
        assert bytes(frame_of(said.message, CLIENT)) == framed.message.frame
        self.said, self.framed = said, framed
        return said.message

    def hear(self, response: Any) -> None:
        """Both hear the same, and are then the same."""
        key = self.said.message.__api_key__
        frame = encode_response(key, VERSIONS[key], 0, response)[4:]
        self.plain.receive(self.said, response, self.now)
        self.light.receive(self.framed, read_answer(key, frame), self.now)
        for name in ("state", "member_id", "generation"):
            assert getattr(self.plain, name) == getattr(self.light, name), name
        assert self.plain.next_deadline() == self.light.next_deadline()


def classic(instance_id: str | None) -> Twins:
    config = MemberConfig(group_id="g", topics=("t",), client_id=CLIENT, instance_id=instance_id)
    shares = [compact.blob(encode_assignment([("t", index)])) for index in range(4)]
    frames = ClassicFrames(GroupFrames(config, shares), instance_id)
    return Twins(
        ClassicMember(config, random.Random(1), PARTITIONS),
        ClassicMember(config, random.Random(1), PARTITIONS, frames),
    )


def joined(leader: str, *members: str, error: ErrorCode = E.none, me: str = "m0") -> Any:
    """A JoinGroup answer; members whose name ends with "s" are static ones."""
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        generation_id=-1 if error else 5,
        protocol_type="consumer",
        protocol_name=None if error else "range",
        leader=leader,
        skip_assignment=False,
        member_id=me,
        members=tuple(
            JoinGroupResponseMember(
                member_id=name, group_instance_id=name if name.endswith("s") else None, metadata=b""
            )
            for name in members
        ),
    )


def synced(error: ErrorCode = E.none) -> Any:
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        protocol_type="consumer",
        protocol_name="range",
        assignment=b"" if error else encode_assignment([("t", 0)]),
    )


def beaten(error: ErrorCode = E.none) -> Any:
    return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=error)


@pytest.mark.parametrize("instance_id", [None, "i"])
def test_a_classic_member_says_the_same_in_frames(instance_id: str | None) -> None:
    both = classic(instance_id)
    both.say()
    both.hear(joined("", error=E.member_id_required, me="m0"))
    both.say()
    both.hear(joined("another"))
    both.say()
    both.hear(synced())
    for _ in range(2):
        both.now += 3_000
        both.say()
        both.hear(beaten())
    both.now += 3_000
    both.say()
    both.hear(beaten(E.rebalance_in_progress))
    both.say()  # for the reason that the group rebalances
    both.hear(joined("another"))
    both.say()
    both.hear(synced(E.rebalance_in_progress))
    both.say()
    both.hear(joined("another", error=E.unknown_member_id, me=""))


def test_what_has_no_template_is_said_the_same_too() -> None:
    both = classic(None)
    both.say()
    both.hear(joined("another"))
    both.say()
    both.hear(synced())
    for each in (both.plain, both.light):
        each.partitions = (("t", 0),)
        each.commit({("t", 0): 3})
    both.say()
    both.hear(OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=()))
    for each in (both.plain, both.light):
        assert isinstance(each, ClassicMember)
        each.leave("enough")
    both.say()
    both.hear(LeaveGroupResponse(throttle_time=NO_THROTTLE, error_code=E.none, members=()))
    assert both.light.state is State.LEFT


def test_a_leader_that_writes_frames_gives_every_member_its_share_in_range_order() -> None:
    both = classic(None)
    names = ("m3", "m0", "m2s", "m1s")
    ranked = sorted((Subscriber(n, n if n.endswith("s") else None, ()) for n in names),
                    key=Subscriber.rank)  # fmt: skip
    assert [each.member_id for each in ranked] == ["m1s", "m2s", "m0", "m3"]
    (asked,) = both.light.poll(0)
    answer = encode_response(JOIN_GROUP, 9, 0, joined("m0", *names))[4:]
    both.light.receive(asked, read_answer(JOIN_GROUP, answer), 0)
    (sync,) = both.light.poll(0)
    message = decode_request(sync.message.frame[4:]).message
    assert [(each.member_id, each.assignment) for each in message.assignments] == [
        (each.member_id, encode_assignment([("t", index)])) for index, each in enumerate(ranked)
    ]


def consumer() -> Twins:
    config = ConsumerMemberConfig(group_id="g", topics=("t",), client_id=CLIENT)
    return Twins(
        ConsumerMember(config, random.Random(1), {}),
        ConsumerMember(config, random.Random(1), {}, ConsumerFrames(CLIENT)),
    )


def told(epoch: int, partitions: tuple[int, ...] | None, error: ErrorCode = E.none) -> Any:
    assignment = None
    if partitions is not None:
        rows = (AssignedTopicPartitions(topic_id=TOPIC, partitions=partitions),)
        assignment = HeartbeatAssignment(topic_partitions=rows if partitions else ())
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message="no" if error else None,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval=timedelta(milliseconds=5_000),
        assignment=assignment,
    )


def test_a_consumer_group_s_member_says_the_same_in_frames() -> None:
    both = consumer()
    both.say()
    both.hear(told(1, (0, 1)))
    assert list(partitions_in(both.light.owned)) == [(TOPIC.bytes, 0), (TOPIC.bytes, 1)]  # type: ignore[attr-defined]
    both.say()  # what it owns
    both.hear(told(1, None))
    both.now += 5_000
    both.say()  # nothing new
    both.hear(told(2, (1,)))
    for each in (both.plain, both.light):
        assert isinstance(each, ConsumerMember)
        each.subscribe(("t", "u"))
    both.say()  # what it owns, and other topics
    both.hear(told(2, None))
    both.now += 5_000
    both.say()
    both.hear(told(0, None, E.fenced_member_epoch))
    both.say()  # it joins again
    both.hear(told(3, (1,)))
    for each in (both.plain, both.light):
        each.disconnected(both.now)
        each.coordinator = NODE
    both.say()  # everything, to a coordinator that may be another one
    both.hear(told(3, None))
    for each in (both.plain, both.light):
        assert isinstance(each, ConsumerMember)
        each.leave()
    both.say()
    both.hear(told(-1, None))
    assert both.light.state is State.LEFT


def share() -> Twins:
    config = ShareMemberConfig(group_id="g", topics=("t",), client_id=CLIENT, rack_id="r")
    return Twins(
        ShareMember(config, random.Random(1), {}),
        ShareMember(config, random.Random(1), {}, ShareFrames(CLIENT)),
    )


def shared(epoch: int, partitions: tuple[int, ...] | None, error: ErrorCode = E.none) -> Any:
    row = ShareHeartbeatTopicPartitions(topic_id=TOPIC, partitions=partitions or ())
    return ShareGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message="no" if error else None,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval=timedelta(milliseconds=5_000),
        assignment=None
        if partitions is None
        else ShareHeartbeatAssignment(topic_partitions=(row,)),
    )


def test_a_share_group_s_member_says_the_same_in_frames() -> None:
    both = share()
    both.say()
    both.hear(shared(1, (0, 1)))
    assert list(partitions_in(both.light.owned)) == [(TOPIC.bytes, 0), (TOPIC.bytes, 1)]  # type: ignore[attr-defined]
    both.say()
    both.hear(shared(1, None))
    for each in (both.plain, both.light):
        assert isinstance(each, ShareMember)
        each.subscribe(("t", "u"))
    both.say()
    both.hear(shared(2, None))
    both.now += 5_000
    both.say()
    both.hear(shared(0, None, E.fenced_member_epoch))
    both.say()
    both.hear(shared(3, (1,)))
    for each in (both.plain, both.light):
        each.disconnected(both.now)
        each.coordinator = NODE
    both.say()
    both.hear(shared(3, None))
    for each in (both.plain, both.light):
        assert isinstance(each, ShareMember)
        each.leave()
    both.say()
    both.hear(shared(-1, None))
    assert both.light.state is State.LEFT


def streams(instance_id: str | None) -> Twins:
    topology = StreamsTopology(epoch=0, subtopologies=(subtopology("0", ["t"]),))
    config = StreamsMemberConfig(
        group_id="g",
        topology=topology,
        client_id=CLIENT,
        instance_id=instance_id,
        rack_id="r",
        user_endpoint=("h", 1),
        client_tags=(("zone", "a"),),
    )
    return Twins(
        StreamsMember(config, random.Random(1), {}),
        StreamsMember(config, random.Random(1), {}, StreamsFrames(CLIENT)),
    )


def streamed(
    epoch: int, active: tuple[int, ...] | None, error: ErrorCode = E.none, status: int = -1
) -> Any:
    row = AssignedTaskIds(subtopology_id="0", partitions=active or ())
    return blank(
        StreamsGroupHeartbeatResponse,
        error_code=error,
        error_message="no" if error else None,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval=timedelta(milliseconds=5_000),
        status=() if status < 0 else (StreamsStatus(status_code=status, status_detail="why"),),
        active_tasks=None if active is None else (row,),
        standby_tasks=None if active is None else (),
        warmup_tasks=None if active is None else (),
        endpoint_information_epoch=epoch,
    )


@pytest.mark.parametrize("instance_id", [None, "i"])
def test_a_streams_group_s_member_says_the_same_in_frames(instance_id: str | None) -> None:
    both = streams(instance_id)
    plain, light = both.plain, both.light
    assert isinstance(plain, StreamsMember)
    assert isinstance(light, StreamsMember)
    both.say()
    both.hear(streamed(1, (0, 1), status=1))
    assert tasks_in(light.owned) == ((("0", 0), ("0", 1)), (), ())
    assert light.statuses == plain.statuses == ((1, "why"),)
    both.say()  # what it owns
    both.hear(streamed(1, None))
    both.now += 5_000
    both.say()  # nothing new
    both.hear(streamed(2, (1,)))
    both.say()
    both.hear(streamed(2, None))
    both.now += 5_000
    both.say()
    both.hear(streamed(0, None, E.fenced_member_epoch))
    both.say()  # it joins again
    both.hear(streamed(3, (1,)))
    for each in (plain, light):
        each.disconnected(both.now)
        each.coordinator = NODE
    both.say()
    both.hear(streamed(3, None))
    for each in (plain, light):
        each.shut_down(both.now)
    both.say()
    both.hear(streamed(3, None))
    for each in (plain, light):
        each.leave()
    both.say()
    both.hear(streamed(-1, None))
    assert light.state is State.LEFT


@pytest.mark.parametrize(
    "api_key",
    [
        HEARTBEAT,
        JOIN_GROUP,
        CONSUMER_GROUP_HEARTBEAT,
        SHARE_GROUP_HEARTBEAT,
        STREAMS_GROUP_HEARTBEAT,
    ],
)
@pytest.mark.parametrize("size", [0, 4, 9, 12, 16])
def test_an_answer_that_ends_early_is_a_bad_frame_or_nothing(api_key: int, size: int) -> None:
    with contextlib.suppress(BadFrame):
        read_answer(api_key, bytes(size))


def test_a_member_without_a_history_keeps_none() -> None:
    both = classic(None)
    both.light.keeps_history = False
    both.say()
    both.hear(joined("another"))
    assert both.plain.history
    assert not both.light.history
