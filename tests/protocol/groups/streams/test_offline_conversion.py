"""Offline conversion between classic and streams groups: only without members."""

from __future__ import annotations

from typing import Any

from protocol.records import StreamsGroupMetadataKey, StreamsGroupTopologyKey
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import LeaveGroupRequest, MemberIdentity
from tests.failover.apis import asks
from tests.failover.working import beat as consumer_beat
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.streams.streams_talk import StreamsTalk, told
from tests.protocol.groups.streams.test_streams_offsets import committed


def joined_classic(talk: StreamsTalk) -> str:
    """Let a classic member join; return its id, empty if it was refused."""
    talk.ask(asks.join(GROUP), 3)
    talk.settle()
    result: Any = talk.last_reply().message
    return str(result.member_id) if result.error_code is ErrorCode.none else ""


def test_an_empty_streams_group_makes_way_for_a_classic_member_and_the_other_way_round() -> None:
    talk = StreamsTalk({"group.initial.rebalance.delay.ms": "0"})
    talk.join("A")
    assert committed(talk, "A", 2, 0) is ErrorCode.none
    refused = talk.ask(asks.join(GROUP), 3)
    assert refused.error_code is ErrorCode.inconsistent_group_protocol
    talk.leave("A")
    member_id = joined_classic(talk)
    assert member_id
    assert talk.group.type_name == "classic"
    assert talk.written(StreamsGroupMetadataKey)[-1] is None
    assert talk.written(StreamsGroupTopologyKey)[-1] is None
    again = talk.join("A")
    assert (again.error_code, again.error_message) == (
        ErrorCode.group_id_not_found,
        f"Group {GROUP} is not a streams group.",
    )
    identity = MemberIdentity(member_id=member_id, group_instance_id=None, reason=None)
    talk.ask(LeaveGroupRequest(group_id=GROUP, members=(identity,)), 5)
    assert told(talk.join("A")) == (2, "0:012", "")
    assert talk.group.type_name == "streams"
    assert talk.context.offsets[GROUP]["in"]  # offsets stay
    talk.failover()
    assert talk.group.state == "Stable"


def test_consumer_members_do_not_join_it_nor_its_members_consumer_groups() -> None:
    talk = StreamsTalk()
    talk.join("A")
    assert talk.ask(consumer_beat(GROUP, "B"), 1).error_code is ErrorCode.group_id_not_found
    talk.leave("A")
    assert talk.ask(consumer_beat(GROUP, "B"), 1).error_code is ErrorCode.group_id_not_found
    other = StreamsTalk()
    other.ask(consumer_beat(GROUP, "B"), 1)
    assert other.join("A").error_code is ErrorCode.group_id_not_found
