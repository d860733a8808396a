"""Consumer groups: who may join, what each heartbeat is answered, who is fenced (KIP-848)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from protocol.groups.facts import MemberEvent, MemberEventKind
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk, owned
from tests.protocol.groups.conversation import topic_id


def stable(*names: str, **options: Any) -> ConsumerTalk:
    """Bring a group of these members to rest."""
    talk = ConsumerTalk(**options)
    for name in names:
        talk.join(name)
    talk.converge(*(name.partition("=")[0] for name in names))
    return talk


def events(talk: ConsumerTalk) -> list[MemberEventKind]:
    return [fact.kind for fact in talk.facts if isinstance(fact, MemberEvent)]


# -- joining


def test_the_first_member_gets_everything_at_epoch_2() -> None:
    talk = ConsumerTalk()
    answer = talk.join("A")
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, 2)
    assert talk.client("A").owned == {("a", index) for index in range(4)}
    assert talk.describe().group_state == "Stable"


def test_the_answer_tells_the_heartbeat_interval_of_the_group() -> None:
    talk = ConsumerTalk()
    talk.shard.group_configs = {"g": {"consumer.heartbeat.interval.ms": "7000"}}
    assert talk.join("A").heartbeat_interval == timedelta(seconds=7)
    talk.shard.group_configs = {}
    assert talk.beat("A").heartbeat_interval == timedelta(seconds=5)


def test_a_second_member_waits_for_what_the_first_has_to_give_up() -> None:
    talk = stable("A")
    joined = talk.join("B")
    assert joined.assignment.topic_partitions == ()
    assert talk.describe().group_state == "Reconciling"
    told = talk.beat("A", topic_partitions=owned(talk.client("A").owned))
    assert told.member_epoch == 2  # it keeps its epoch until it has given them up
    assert talk.owned("A") == [2]
    assert talk.beat("B").assignment is None
    given_up = talk.beat("A")
    assert given_up.member_epoch == 3
    talk.beat("B")
    assert talk.owned("A", "B") == [2, 2]
    assert not talk.client("A").owned & talk.client("B").owned


def test_a_member_that_brings_no_id_gets_one_from_version_0_only() -> None:
    talk = ConsumerTalk()
    talk.client("A")
    answer = talk.heartbeat(
        "A",
        member_id="",
        version=0,
        member_epoch=0,
        subscribed_topic_names=("a",),
        rebalance_timeout=timedelta(seconds=60),
        topic_partitions=(),
    )
    assert len(answer.member_id) == 22
    assert talk.heartbeat("A", member_id="", version=1).error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_request),
        ({"instance_id": " "}, ErrorCode.invalid_request),
        ({"rack_id": ""}, ErrorCode.invalid_request),
        ({"member_id": "x" * 40_000}, ErrorCode.invalid_request),
        ({"rebalance_timeout": timedelta(milliseconds=-1)}, ErrorCode.invalid_request),
        ({"topic_partitions": None}, ErrorCode.invalid_request),
        ({"topic_partitions": owned([("a", 0)])}, ErrorCode.invalid_request),
        ({"subscribed_topic_names": None}, ErrorCode.invalid_request),
        ({"member_epoch": -3}, ErrorCode.invalid_request),
        ({"member_epoch": -2}, ErrorCode.invalid_request),
        ({"server_assignor": "best"}, ErrorCode.unsupported_assignor),
        ({"member_epoch": 1}, ErrorCode.group_id_not_found),
        ({"member_epoch": -1}, ErrorCode.group_id_not_found),
    ],
)
def test_a_request_that_says_too_little_or_contradicts_itself_is_refused(
    fields: dict[str, Any], code: ErrorCode
) -> None:
    talk = ConsumerTalk()
    asked = {
        "member_id": "m",
        "member_epoch": 0,
        "subscribed_topic_names": ("a",),
        "rebalance_timeout": timedelta(seconds=60),
        "topic_partitions": (),
        **fields,
    }
    assert talk.heartbeat("A", **asked).error_code is code
    assert talk.records == []


def test_a_group_that_is_full_takes_nobody_else() -> None:
    talk = stable("A", overrides={"group.consumer.max.size": "1"})
    assert talk.join("B").error_code is ErrorCode.group_max_size_reached
    assert talk.join("A").error_code is ErrorCode.none


def test_a_member_may_ask_for_an_assignor_and_most_votes_win() -> None:
    talk = ConsumerTalk()
    talk.join("A")
    assert talk.describe().assignor_name == "uniform"
    talk.join("B", server_assignor="range")
    assert talk.describe().assignor_name == "range"


def test_consumer_groups_can_be_switched_off() -> None:
    talk = ConsumerTalk({"group.coordinator.rebalance.protocols": "classic"})
    assert talk.join("A").error_code is ErrorCode.unsupported_version
    assert talk.describe().error_code is ErrorCode.unsupported_version


# -- epochs


def test_a_member_with_an_epoch_from_the_future_is_fenced() -> None:
    talk = stable("A")
    assert talk.beat("A", member_epoch=9).error_code is ErrorCode.fenced_member_epoch


def test_the_epoch_before_is_taken_if_the_answer_may_have_been_lost() -> None:
    talk = stable("A", "B")
    client = talk.client("A")
    before = client.epoch - 1
    mine = owned(client.owned)
    assert talk.beat("A", member_epoch=before, topic_partitions=mine).error_code is ErrorCode.none
    talk.client("A").epoch = client.epoch
    alien = owned([*client.owned, ("zz", 0)])
    answer = talk.beat("A", member_epoch=before, topic_partitions=alien)
    assert answer.error_code is ErrorCode.fenced_member_epoch
    answer = talk.beat("A", member_epoch=before, topic_partitions=None)
    assert answer.error_code is ErrorCode.fenced_member_epoch


def test_a_fenced_member_joins_again_with_epoch_0_and_the_group_does_not_rebalance() -> None:
    talk = stable("A")
    epoch = talk.describe().group_epoch
    assert talk.beat("A", member_epoch=99).error_code is ErrorCode.fenced_member_epoch
    answer = talk.join("A")
    assert answer.error_code is ErrorCode.none
    assert talk.owned("A") == [4]
    assert talk.describe().group_epoch == epoch


def test_somebody_unknown_is_told_so() -> None:
    talk = stable("A")
    assert talk.heartbeat("X", member_id="x", member_epoch=2).error_code is (
        ErrorCode.unknown_member_id
    )


# -- steady heartbeats


def test_a_steady_heartbeat_writes_nothing_and_may_be_repeated_until_something_changes() -> None:
    talk = stable("A")
    talk.beat("A")
    reply = talk.last_reply()
    assert reply.lease is not None
    assert talk.result is not None
    assert talk.result.records == []
    held = reply.lease
    assert held.group.stamp == held.stamp
    talk.join("B")
    assert held.group.stamp != held.stamp


def test_a_lease_ends_with_the_member_and_with_leadership() -> None:
    talk = stable("A", "B")
    leases = []
    for name in ("A", "B"):
        talk.beat(name)
        lease = talk.last_reply().lease
        assert lease is not None
        leases.append(lease)
    talk.leave("B")
    assert leases[1].group.stamp != leases[1].stamp
    talk.converge("A")
    talk.beat("A")
    lease = talk.last_reply().lease
    assert lease is not None
    talk.failover()
    assert lease.group.stamp != lease.stamp


def test_a_repeated_heartbeat_keeps_the_session_alive() -> None:
    talk = stable("A")
    for _ in range(4):
        talk.beat("A")
        lease = talk.last_reply().lease
        assert lease is not None
        talk.advance(40_000)
        lease.member.session_deadline_ms = talk.now + lease.member.session_timeout_ms
    talk.advance(40_000)
    assert "m-A" in talk.group.members
    talk.advance(40_000)
    assert talk.group.members == {}


# -- leaving


def test_who_leaves_is_gone_and_its_partitions_go_to_the_others() -> None:
    talk = stable("A", "B")
    answer = talk.leave("B")
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, -1)
    talk.converge("A")
    assert talk.owned("A") == [4]
    assert events(talk)[-1] is MemberEventKind.LEFT


def test_a_member_that_is_silent_for_its_session_is_removed() -> None:
    talk = stable("A", "B")
    talk.advance(30_000)
    talk.beat("A")
    talk.advance(20_000)
    assert events(talk)[-1] is MemberEventKind.EXPIRED
    assert [each.member_id for each in talk.describe().members] == ["m-A"]


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    talk = ConsumerTalk()
    talk.join("A", rebalance_ms=10_000)
    talk.converge("A")
    talk.join("B")
    talk.beat("A", topic_partitions=owned(talk.client("A").owned))
    talk.advance(9_999)
    assert "m-A" in talk.group.members
    talk.advance(1)
    assert "m-A" not in talk.group.members
    assert events(talk)[-1] is MemberEventKind.NOT_REVOKED
    talk.converge("B")
    assert talk.owned("B") == [4]


def test_an_administrator_removes_members_by_leave_group() -> None:
    talk = stable("A", "B=i")
    message = LeaveGroupRequest(
        group_id="g",
        members=(
            MemberIdentity(member_id="m-A", reason="why"),
            MemberIdentity(member_id="", group_instance_id="i"),
            MemberIdentity(member_id="x"),
            MemberIdentity(member_id="x", group_instance_id="j"),
        ),
    )
    answer = talk.ask(message, 5)
    codes = [each.error_code for each in answer.members]
    assert codes == [0, 0, ErrorCode.unknown_member_id, ErrorCode.unknown_member_id]
    assert talk.describe().group_state == "Empty"


# -- subscriptions and topics


def test_a_topic_that_a_member_drops_is_taken_from_it_at_once() -> None:
    talk = ConsumerTalk()
    talk.join("A", ("a", "b"))
    assert talk.owned("A") == [6]
    talk.beat("A", subscribed_topic_names=("b",), topic_partitions=owned(talk.client("A").owned))
    assert talk.client("A").owned == {("b", 0), ("b", 1)}
    talk.converge("A")
    assert talk.describe().group_state == "Stable"


def test_new_partitions_and_deleted_topics_move_the_group_epoch() -> None:
    talk = ConsumerTalk()
    talk.join("A", ("a", "b"))
    talk.converge("A")
    epoch = talk.group.epoch
    talk.set_topics(a=6, b=2)
    talk.converge("A")
    assert talk.owned("A") == [8]
    assert talk.group.epoch == epoch + 1
    talk.set_topics(a=6)
    talk.converge("A")
    assert talk.owned("A") == [6]
    talk.set_topics(a=6, other=1)
    talk.converge("A")
    assert talk.group.epoch == epoch + 2


def test_a_topic_created_later_is_assigned_when_it_comes() -> None:
    talk = ConsumerTalk()
    talk.join("A", ("later",))
    assert talk.owned("A") == [0]
    talk.set_topics(a=4, later=3)
    talk.converge("A")
    assert talk.owned("A") == [3]


def test_a_member_with_an_empty_subscription_is_part_of_the_group() -> None:
    talk = ConsumerTalk()
    answer = talk.join("A", ())
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, 1)
    assert talk.describe().group_state == "Stable"
    assert talk.owned("A") == [0]


# -- other APIs


def test_a_group_id_belongs_to_one_type_of_group() -> None:
    talk = stable("A")
    join = JoinGroupRequest(
        group_id="g",
        session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=10),
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    assert talk.ask(join, 3).error_code is ErrorCode.inconsistent_group_protocol
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id="m-A",
        protocol_type="consumer",
        protocol_name="range",
        assignments=(),
    )
    assert talk.ask(sync, 5).error_code is ErrorCode.unknown_member_id
    assert talk.describe_classic().error_code is ErrorCode.group_id_not_found
    talk.leave("A")
    assert talk.ask(join, 9).error_code is ErrorCode.member_id_required
    answer = talk.join("A")
    assert answer.error_code is ErrorCode.none


def test_a_classic_group_with_members_is_not_taken_over() -> None:
    talk = ConsumerTalk()
    join = JoinGroupRequest(
        group_id="g",
        session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=10),
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    member_id = talk.ask(join, 9).member_id
    message = JoinGroupRequest(
        **{
            each: getattr(join, each)
            for each in ("group_id", "session_timeout", "rebalance_timeout", "protocol_type")
        },
        member_id=member_id,
        protocols=join.protocols,
    )
    assert talk.ask(message, 9) is None  # parked: the group waits for more members
    assert talk.join("A").error_code is ErrorCode.group_id_not_found


def test_consumer_groups_are_listed_and_deleted() -> None:
    talk = stable("A")
    [listed] = talk.list(states=("stable",), types=("consumer",))
    assert (listed.group_id, listed.group_type) == ("g", "consumer")
    assert listed.protocol_type == "consumer"
    assert talk.delete("g") == [ErrorCode.non_empty_group]
    talk.leave("A")
    assert talk.delete("g") == [ErrorCode.none]
    assert talk.describe().error_code is ErrorCode.group_id_not_found
    assert talk.context.groups == {}
    talk.failover(from_compacted=True)
    assert talk.context.groups == {}


def test_a_description_shows_what_is_still_to_be_given_up() -> None:
    talk = stable("A")
    talk.join("B")
    talk.beat("A", topic_partitions=owned(talk.client("A").owned))
    described = {each.member_id: each for each in talk.describe().members}
    [topic] = described["m-A"].assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name) == (topic_id("a"), "a")
    assert sorted(topic.partitions) == [0, 1, 2, 3]
    assert len(described["m-A"].target_assignment.topic_partitions[0].partitions) == 2
    assert described["m-A"].member_type == 1


# -- failover


@pytest.mark.parametrize("from_compacted", [False, True], ids=["log", "compacted"])
def test_a_new_leader_knows_the_group_and_arms_its_sessions(from_compacted: bool) -> None:
    talk = stable("A", "B=i")
    talk.failover(from_compacted=from_compacted)
    talk.settle()
    for name in ("A", "B"):
        answer = talk.beat(name)
        assert answer.error_code is ErrorCode.none
        assert answer.assignment is None
    assert talk.describe().group_state == "Stable"
    talk.advance(45_000)
    assert talk.describe().group_state == "Empty"


def test_a_new_leader_waits_for_what_is_being_given_up() -> None:
    talk = ConsumerTalk()
    talk.join("A", rebalance_ms=10_000)
    talk.converge("A")
    talk.join("B")
    talk.beat("A", topic_partitions=owned(talk.client("A").owned))
    talk.failover()
    talk.settle()
    talk.advance(10_000)
    assert "m-A" not in talk.group.members


def test_nobody_is_expelled_for_the_time_that_the_process_stood_still() -> None:
    talk = stable("A")
    talk.now += 100_000
    talk.shard.shift_deadlines(100_000)
    talk.settle()
    assert talk.beat("A").error_code is ErrorCode.none
