"""Online migration: the rules, one sentence each, held against one shard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from protocol.groups.facts import GroupConverted, MemberEvent
from protocol.groups.timers import TimerKind
from protocol.records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    Record,
    decode,
    encode,
)
from protocol.wire.embedded import decode_subscription, encode_assignment, encode_subscription
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
)
from tests.protocol.groups.classic.classic_talk import join_group, sync_group
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.migration.mixed_talk import COOPERATIVE, EAGER, MixedTalk

POLICIES = ("disabled", "upgrade", "downgrade", "bidirectional")


def with_policy(policy: str, **overrides: str) -> MixedTalk:
    return MixedTalk({"group.consumer.migration.policy": policy, **overrides})


def mixed(*classics: str, talk: MixedTalk | None = None, **fields: Any) -> MixedTalk:
    """A consumer group in which classic members have been joined by C; everybody is settled."""
    talk = talk or MixedTalk()
    talk.classic_group(*classics, **fields)
    talk.join("C")
    talk.settle_all(*(name.partition("=")[0] for name in classics), "C")
    return talk


def kinds_of(talk: MixedTalk, since: int) -> list[tuple[str, bool]]:
    """Each record since then: its type, and whether it has a value."""
    return [
        (type(record.key).__name__.removesuffix("Key"), record.value is not None)
        for record in talk.records[since:]
    ]


# --- who may convert


@pytest.mark.parametrize("policy", POLICIES)
def test_the_policy_says_whether_a_classic_group_with_members_is_upgraded(policy: str) -> None:
    talk = with_policy(policy)
    talk.classic_group("A")
    answer = talk.join("C")
    if policy in ("upgrade", "bidirectional"):
        assert talk.is_consumer_group
        assert talk.client("C").error is ErrorCode.none
    else:
        assert answer.error_code is ErrorCode.group_id_not_found
        assert "online upgrade is disabled" in answer.error_message
        assert not talk.is_consumer_group
        assert talk.heartbeat_group("A") is ErrorCode.none


@pytest.mark.parametrize("policy", POLICIES)
def test_an_empty_classic_group_is_replaced_whatever_the_policy(policy: str) -> None:
    talk = with_policy(policy)
    talk.classic_group("A")
    assert talk.commit("A") is ErrorCode.none
    talk.leave_group("A")
    talk.join("C")
    assert talk.client("C").error is ErrorCode.none
    assert talk.is_consumer_group
    assert talk.context.offsets[GROUP]["a"][0].offset == 7


@pytest.mark.parametrize("policy", POLICIES)
def test_an_empty_consumer_group_is_replaced_whatever_the_policy(policy: str) -> None:
    talk = with_policy(policy)
    talk.join("C")
    talk.leave("C")
    talk.classic_group("A")
    assert not talk.is_consumer_group
    assert talk.shares("A") == [4]


@pytest.mark.parametrize("policy", POLICIES)
def test_classic_members_join_a_consumer_group_unless_migration_is_disabled(policy: str) -> None:
    talk = with_policy(policy)
    talk.join("C")
    talk.join_group("A")
    if policy == "disabled":
        assert talk.classic("A").error is ErrorCode.inconsistent_group_protocol
    else:
        talk.sync_group("A")
        talk.settle_all("A", "C")
        assert sorted(talk.shares("A", "C")) == [2, 2]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_policy_says_whether_a_group_of_classic_members_is_downgraded(policy: str) -> None:
    talk = with_policy("bidirectional")
    mixed("A", talk=talk)
    talk.shard.configs = talk.shard.configs.with_overrides(
        {"group.consumer.migration.policy": policy.upper()}
    )
    talk.leave("C")
    assert talk.is_consumer_group == (policy in ("disabled", "upgrade"))


def test_a_group_of_another_protocol_type_is_not_upgraded() -> None:
    talk = MixedTalk()
    talk.classic_group("A")
    talk.context.classic_runtime[GROUP].protocol_type = "connect"
    answer = talk.join("C")
    assert answer.error_code is ErrorCode.group_id_not_found
    assert "consumer embedded protocol" in answer.error_message


def test_a_group_larger_than_a_consumer_group_may_be_is_not_upgraded() -> None:
    talk = with_policy("bidirectional", **{"group.consumer.max.size": "1"})
    talk.classic_group("A", "B")
    assert "maximum size" in talk.join("C").error_message
    assert not talk.is_consumer_group


def test_a_group_with_no_room_for_the_newcomer_stays_classic() -> None:
    talk = with_policy("bidirectional", **{"group.consumer.max.size": "2"})
    talk.classic_group("A", "B")
    assert talk.join("C").error_code is ErrorCode.group_max_size_reached
    assert not talk.is_consumer_group


def test_a_group_larger_than_a_classic_group_may_be_is_not_downgraded() -> None:
    talk = with_policy("bidirectional", **{"group.max.size": "2"})
    mixed("A", "B", talk=talk)
    talk.join_group("D")
    talk.leave("C")
    assert talk.is_consumer_group


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [(b"\x00\x00garbage!", "malformed"), (encode_assignment([("a", 0)], b"more"), "custom")],
)
def test_an_assignment_that_cannot_be_taken_over_keeps_a_group_classic(
    assignment: bytes, sentence: str
) -> None:
    talk = MixedTalk()
    talk.join_group("A")
    talk.settle()
    _sync_raw(talk, "A", assignment)
    answer = talk.join("C")
    assert answer.error_code is ErrorCode.group_id_not_found
    assert sentence in answer.error_message
    assert not talk.is_consumer_group


def test_a_subscription_that_cannot_be_read_keeps_a_group_classic() -> None:
    talk = MixedTalk()
    talk.classic_group("A")
    group = talk.context.classic_runtime[GROUP]
    member = group.members[talk.classic("A").member_id]
    offered = (JoinGroupRequestProtocol(name=EAGER, metadata=b"?"),)
    group.set_protocols(member, offered, (EAGER,))
    assert "malformed" in talk.join("C").error_message


def test_an_assignor_that_gave_a_partition_to_two_members_leaves_it_to_the_first() -> None:
    talk = MixedTalk()
    talk.classic_group("A")
    talk.join_group("B")
    talk.join_group("A")
    both = encode_assignment([("a", 0), ("a", 1), ("gone", 3)])
    talk.sync_group("B")
    _sync_raw(talk, "A", both, "B")
    talk.join("C")
    talk.settle_all("A", "B", "C")
    assert sum(talk.shares("A", "B", "C")) == 4


def _sync_raw(talk: MixedTalk, name: str, assignment: bytes, *others: str) -> None:
    client = talk.classic(name)
    client.waits_for = "sync"
    shares = [(talk.classic(each).member_id, assignment) for each in (name, *others)]
    message = sync_group(client, shares, protocol_name=client.protocol, instance=None)
    talk.say(client, message, 5)


# --- the upgrade


def test_the_generation_becomes_the_group_epoch_and_nobody_loses_a_partition() -> None:
    talk = MixedTalk(interval_ms=1_000, in_place=False)
    talk.classic_group("A", "B")
    generation = talk.classic("A").generation
    talk.join("C")
    assert talk.group.epoch == generation + 1
    assert talk.group.assignment_epoch == generation
    assert talk.client("C").epoch == generation
    members = {m.member_id: m for m in talk.describe().members}
    for name in ("A", "B"):
        member = members[talk.classic(name).member_id]
        assert (member.member_type, member.member_epoch) == (0, generation)
        assert len(member.assignment.topic_partitions[0].partitions) == 2
    assert members[talk.client("C").member_id].member_type == 1


def test_a_conversion_writes_kafkas_records_in_kafkas_order() -> None:
    talk = MixedTalk(in_place=False)
    talk.classic_group("A", "B")
    before = len(talk.records)
    talk.join("C")
    consumer = "ConsumerGroup"
    assert kinds_of(talk, before)[:10] == [
        ("GroupMetadata", False),
        *[(f"{consumer}MemberMetadata", True)] * 2,
        (f"{consumer}Metadata", True),
        *[(f"{consumer}TargetAssignmentMember", True)] * 2,
        (f"{consumer}TargetAssignmentMetadata", True),
        *[(f"{consumer}CurrentMemberAssignment", True)] * 2,
        (f"{consumer}MemberMetadata", True),
    ]
    talk.work()
    talk.settle_all("A", "B", "C")
    before = len(talk.records)
    talk.leave("C")
    assert kinds_of(talk, before) == [
        *[(f"{consumer}CurrentMemberAssignment", False)] * 3,
        *[(f"{consumer}TargetAssignmentMember", False)] * 3,
        (f"{consumer}TargetAssignmentMetadata", False),
        *[(f"{consumer}MemberMetadata", False)] * 3,
        (f"{consumer}PartitionMetadata", False),
        (f"{consumer}Metadata", False),
        ("GroupMetadata", True),
    ]


def test_what_a_classic_member_is_survives_in_its_record() -> None:
    talk = mixed("A=i", session_ms=12_000, rebalance_ms=34_000)
    record = next(
        decode(*encode(each))
        for each in reversed(talk.records)
        if isinstance(each.key, ConsumerGroupMemberMetadataKey)
        and each.key.member_id == talk.classic("A").member_id
    )
    value: Any = record.value
    assert (value.instance_id, value.rebalance_timeout_ms) == ("i", 34_000)
    assert value.subscribed_topic_names == ("a",)
    assert value.classic_member_metadata.session_timeout_ms == 12_000
    [protocol] = value.classic_member_metadata.supported_protocols
    assert protocol.name == EAGER
    subscription = decode_subscription(protocol.metadata)
    assert subscription is not None
    assert subscription.topics == ("a",)


def test_members_that_wait_for_a_classic_rebalance_are_sent_back_to_join_again() -> None:
    talk = MixedTalk()
    talk.classic_group("A", "B")
    talk.join_group("D")  # parked: A and B have yet to join
    talk.join("C")
    assert talk.classic("D").error is ErrorCode.rebalance_in_progress
    assert not talk.classic("D").waits_for
    talk.settle_all("A", "B", "D", "C")
    assert talk.shares("A", "B", "D", "C") == [1, 1, 1, 1]


def test_a_group_whose_first_generation_has_not_begun_is_upgraded_at_epoch_one() -> None:
    talk = with_policy("bidirectional", **{"group.initial.rebalance.delay.ms": "3000"})
    talk.join_group("A")
    assert talk.classic("A").waits_for
    talk.join("C")
    assert talk.classic("A").error is ErrorCode.rebalance_in_progress
    assert talk.group.epoch == 2
    talk.settle_all("A", "C")
    assert talk.shares("A", "C") == [2, 2]


def test_cooperative_members_keep_what_they_own_even_if_a_rebalance_was_cut_short() -> None:
    talk = MixedTalk()
    talk.classic_group("A", protocol=COOPERATIVE)
    talk.join_group("B", protocol=COOPERATIVE)
    talk.join_group("A")  # the generation begins, its assignment is not there yet
    talk.join_group("D", protocol=COOPERATIVE)
    talk.join("C")
    assert talk.client("C").owned == frozenset()
    held = set(talk.group.holders.values())
    assert held == {talk.classic("A").member_id}


def test_sessions_of_the_classic_members_go_on_with_their_own_timeouts() -> None:
    talk = MixedTalk()
    talk.classic_group("A", session_ms=10_000)
    talk.now += 3_600_000  # long after the election
    talk.heartbeat_group("A")
    talk.join("C")
    for _ in range(4):
        talk.advance(2_400)
        talk.beat("C")
    assert len(talk.group.members) == 2
    talk.advance(600)
    assert not talk.is_consumer_group or len(talk.group.members) == 1


# --- JoinGroup, SyncGroup, Heartbeat


def test_a_dynamic_member_is_given_a_member_id_first() -> None:
    talk = MixedTalk()
    talk.join("C")
    client = talk.classic("A")
    answer = talk._join_group(client, 9)
    assert answer.error_code is ErrorCode.member_id_required
    assert len(answer.member_id) == 22
    assert len(talk.group.members) == 1


def test_before_version_4_a_dynamic_member_is_in_at_once() -> None:
    talk = MixedTalk()
    talk.join("C")
    assert talk._join_group(talk.classic("A"), 3).error_code is ErrorCode.none


def test_nobody_leads_and_the_generation_is_the_member_epoch() -> None:
    talk = MixedTalk()
    talk.join("C")
    answer = talk.join_group("A")
    assert (answer.leader, answer.members, answer.protocol_name) == ("", (), EAGER)
    assert answer.protocol_type == "consumer"
    assert answer.generation_id == talk.group.members[answer.member_id].assignment.epoch > 1


@pytest.mark.parametrize("kind", ["type", "protocol", "garbage", "none"])
def test_a_classic_member_needs_a_protocol_that_all_classic_members_support(kind: str) -> None:
    talk = mixed("A")
    client = talk.classic("B")
    metadata = b"" if kind == "garbage" else encode_subscription(("a",))
    name = "roundrobin" if kind == "protocol" else EAGER
    protocols = [] if kind == "none" else [(name, metadata)]
    protocol_type = "connect" if kind == "type" else "consumer"
    message = join_group(client, protocols, member_id="b", protocol_type=protocol_type)
    assert talk.say(client, message, 9).error_code is ErrorCode.inconsistent_group_protocol
    assert len(talk.group.members) == 2


def test_a_session_timeout_out_of_bounds_is_refused() -> None:
    talk = mixed("A")
    assert talk.join_group("B", session_ms=1).error_code is ErrorCode.invalid_session_timeout


def test_a_full_group_takes_no_classic_member_but_its_own() -> None:
    talk = with_policy("bidirectional", **{"group.consumer.max.size": "2"})
    mixed("A", talk=talk)
    assert talk.join_group("B").error_code is ErrorCode.group_max_size_reached
    assert talk.join_group("A").error_code is ErrorCode.none


def test_a_classic_member_rejoins_when_the_target_is_newer_and_not_when_the_group_is() -> None:
    talk = MixedTalk(in_place=False)
    mixed("A", talk=talk)
    talk.join("D")
    assert talk.group.epoch > talk.group.assignment_epoch
    assert talk.heartbeat_group("A") is ErrorCode.none
    assert talk.sync_group("A").error_code is ErrorCode.none
    talk.work()
    assert talk.heartbeat_group("A") is ErrorCode.rebalance_in_progress
    assert talk.sync_group("A").error_code is ErrorCode.rebalance_in_progress


def test_a_cooperative_member_gives_up_first_and_its_sync_says_what_it_keeps() -> None:
    talk = MixedTalk()
    talk.classic_group("A", protocol=COOPERATIVE)
    talk.join("C")
    assert talk.heartbeat_group("A") is ErrorCode.rebalance_in_progress
    talk.join_group("A")
    member = talk.group.members[talk.classic("A").member_id]
    assert member.assignment.state == 1
    assert len(member.assignment.revoking) == 2
    # It is behind the target and yet may sync: it has joined, and has to give up first.
    assert talk.sync_group("A").error_code is ErrorCode.none
    assert len(talk.classic("A").owned) == 2
    talk.beat("C")
    assert talk.owned("C") == [0]
    assert talk.heartbeat_group("A") is ErrorCode.rebalance_in_progress
    talk.catch_up("A")
    talk.beat("C")
    assert talk.shares("A", "C") == [2, 2]


def test_an_eager_member_has_given_up_all_when_it_joins() -> None:
    talk = MixedTalk()
    talk.classic_group("A")
    talk.join("C")
    talk.join_group("A")
    talk.beat("C")
    assert talk.owned("C") == [2]
    talk.sync_group("A")
    assert talk.shares("A", "C") == [2, 2]


def test_a_member_is_told_when_what_others_held_has_come_free() -> None:
    talk = mixed("A")
    talk.join_group("B", protocol=EAGER)
    talk.sync_group("B")
    assert talk.heartbeat_group("B") is ErrorCode.none  # A and C hold all of it
    talk.follow("A")
    talk.beat("C")
    talk.beat("C")
    assert talk.heartbeat_group("B") is ErrorCode.rebalance_in_progress
    talk.settle_all("A", "B", "C")
    assert sum(talk.shares("A", "B", "C")) == 4


def test_a_member_never_sees_a_partition_that_it_does_not_subscribe_to() -> None:
    talk = MixedTalk(in_place=False, interval_ms=1_000)
    mixed("A", talk=talk, topics=("a", "b"))
    talk.join_group("A", topics=("b",))
    talk.sync_group("A")
    assert {topic for topic, _ in talk.classic("A").owned} <= {"b"}


def test_a_changed_subscription_begins_a_new_group_epoch() -> None:
    talk = mixed("A")
    epoch = talk.group.epoch
    talk.join_group("A")
    assert talk.group.epoch == epoch
    talk.join_group("A", topics=("a", "b"))
    assert talk.group.epoch == epoch + 1


@pytest.mark.parametrize("call", ["sync_group", "heartbeat_group"])
def test_who_speaks_must_be_a_classic_member_in_its_generation(call: str) -> None:
    talk = mixed("A=i", "B")

    def code(name: str, **fields: Any) -> ErrorCode:
        kept = replace(talk.classic(name))
        answer = getattr(talk, call)(name, **fields)
        talk.classics[name] = kept
        return answer if call == "heartbeat_group" else ErrorCode(answer.error_code)

    epoch = talk.classic("B").generation
    assert code("B") is ErrorCode.none
    assert code("B", member_id="nobody") is ErrorCode.unknown_member_id
    assert code("B", member_id=talk.client("C").member_id) is ErrorCode.unknown_member_id
    assert code("B", generation=epoch - 1) is ErrorCode.illegal_generation
    assert code("B", generation=epoch + 1) is ErrorCode.illegal_generation
    assert code("A", instance="other") is ErrorCode.unknown_member_id
    assert code("A", member_id="zombie") is ErrorCode.fenced_instance_id


@pytest.mark.parametrize(
    "fields",
    [{"protocol_type": "connect"}, {"protocol_name": "roundrobin"}, {"protocol_name": None}],
)
def test_a_sync_must_name_the_protocol_that_the_join_was_answered_with(fields: Any) -> None:
    talk = mixed("A")
    answer = talk.sync_group("A", **fields)
    assert answer.error_code is ErrorCode.inconsistent_group_protocol


def test_a_steady_heartbeat_comes_with_a_lease_that_ends_with_the_next_target() -> None:
    talk = mixed("A")
    talk.heartbeat_group("A")
    lease = talk.last_reply().lease
    assert lease is not None
    assert lease.group.stamp == lease.stamp
    assert lease.member.session_timeout_ms == 10_000
    talk.join("D")
    assert lease.group.stamp != lease.stamp
    talk.heartbeat_group("A")
    assert talk.last_reply().lease is None


# --- timeouts


def test_a_member_that_does_not_join_again_in_time_is_removed() -> None:
    talk = mixed("A", rebalance_ms=20_000, session_ms=10_000)
    talk.join("D")
    for _ in range(9):
        assert talk.heartbeat_group("A") is ErrorCode.rebalance_in_progress
        talk.beat("C")
        talk.advance(2_000)
    assert talk.heartbeat_group("A") is ErrorCode.rebalance_in_progress
    talk.advance(2_000)
    assert talk.heartbeat_group("A") is ErrorCode.unknown_member_id


def test_a_member_that_does_not_fetch_its_assignment_in_time_is_removed() -> None:
    talk = mixed("A", rebalance_ms=20_000, session_ms=25_000)
    talk.join_group("A")
    talk.advance(19_000)
    assert len(talk.group.members) == 2
    talk.advance(1_000)
    assert len(talk.group.members) == 1


def test_a_member_that_has_joined_and_synced_is_not_waited_for() -> None:
    talk = mixed("A", rebalance_ms=5_000)
    talk.follow("A")
    member_id = talk.classic("A").member_id
    for kind in (TimerKind.MEMBER_JOIN, TimerKind.MEMBER_SYNC, TimerKind.REVOCATION):
        assert talk.context.timers.deadline(kind, GROUP, member_id) is None


def test_a_new_leader_waits_for_members_that_have_to_give_up_partitions() -> None:
    talk = MixedTalk()
    talk.classic_group("A", protocol=COOPERATIVE, rebalance_ms=20_000, session_ms=30_000)
    talk.join("C")
    talk.follow("A")
    talk.failover(from_compacted=True)
    talk.settle()
    talk.beat("C")
    assert len(talk.group.members) == 2
    talk.advance(19_999)
    assert len(talk.group.members) == 2
    talk.advance(1)
    assert [m.is_classic for m in talk.group.members.values()] == [False]


# --- static members


def test_a_static_member_of_the_consumer_protocol_takes_a_classic_ones_place() -> None:
    talk = mixed("A=i", "B")
    owned = talk.classic("A").owned
    epoch = talk.group.epoch
    talk.client("A=i")
    talk.join("A", member_id="A2")
    assert talk.client("A").error is ErrorCode.none
    assert talk.client("A").owned == owned
    assert talk.group.epoch == epoch
    assert talk.heartbeat_group("A") is ErrorCode.fenced_instance_id


def test_a_static_member_may_upgrade_its_group_by_coming_back() -> None:
    talk = MixedTalk()
    talk.classic_group("A=i", "B")
    owned = talk.classic("A").owned
    talk.client("A=i")
    talk.join("A", member_id="A2")
    assert talk.is_consumer_group
    assert talk.client("A").owned == owned
    assert len(talk.group.members) == 2


def test_a_static_member_that_upgrades_its_group_amid_a_rebalance_begins_a_new_epoch() -> None:
    talk = MixedTalk()
    talk.classic_group("A=i", "B")
    talk.join_group("D")  # parked: nobody will hold that rebalance
    talk.client("A=i")
    talk.join("A", member_id="A2")
    talk.classics.pop("A")
    talk.settle_all("B", "D", "A")
    assert sorted(talk.shares("A", "B", "D")) == [1, 1, 2]


def test_a_static_member_that_upgrades_its_group_sees_to_partitions_that_are_nobodys() -> None:
    talk = MixedTalk()
    talk.classic_group("A=i", "B")
    talk.set_topics(a=6, b=2)
    talk.client("A=i")
    talk.join("A", member_id="A2")
    talk.classics.pop("A")
    talk.settle_all("B", "A")
    assert talk.shares("A", "B") == [3, 3]


def test_a_classic_static_member_takes_a_consumer_ones_place_without_waiting() -> None:
    talk = MixedTalk()
    talk.client("A=i")
    talk.join("A", member_id="A1")
    talk.join("C")
    talk.converge("A", "C")
    owned = talk.client("A").owned
    talk.join_group("A=i")
    talk.sync_group("A")
    assert talk.classic("A").owned == owned
    talk.beat("A")
    assert talk.client("A").error is ErrorCode.fenced_instance_id


def test_a_classic_member_in_the_last_consumer_ones_place_downgrades_without_a_rebalance() -> None:
    talk = MixedTalk()
    talk.classic_group("A=i", "B")
    talk.client("A=i")
    talk.join("A", member_id="A2")
    talk.settle_all("B")
    owned = talk.client("A").owned
    other = talk.classic("B").owned
    answer = talk.join_group("A", member_id="")
    assert not talk.is_consumer_group
    assert (answer.error_code, answer.leader) == (ErrorCode.none, "")
    assert talk.describe_classic().group_state == "Stable"
    talk.sync_group("A")
    assert talk.classic("A").owned == owned
    assert talk.heartbeat_group("B") is ErrorCode.none
    assert talk.classic("B").owned == other
    talk.failover(from_compacted=True)
    assert talk.heartbeat_group("A") is talk.heartbeat_group("B") is ErrorCode.none
    assert talk.describe_classic().group_state == "Stable"


def test_a_replacement_while_others_are_behind_rebalances_the_classic_group() -> None:
    talk = MixedTalk()
    talk.classic_group("B")
    talk.client("A=i")
    talk.join("A", member_id="A1")
    talk.join_group("A=i")
    assert not talk.is_consumer_group
    assert talk.describe_classic().group_state == "PreparingRebalance"
    assert talk.sync_group("A").error_code is ErrorCode.rebalance_in_progress
    talk.settle_all("A", "B")
    assert talk.shares("A", "B") == [2, 2]


def test_a_member_that_left_for_a_while_is_still_of_the_consumer_protocol() -> None:
    talk = MixedTalk()
    talk.classic_group("B")
    talk.client("A=i")
    talk.join("A", member_id="A1")
    talk.leave("A", -2)
    assert talk.is_consumer_group


# --- the downgrade


@pytest.mark.parametrize("how", ["leave", "expire", "administrator"])
def test_the_group_is_classic_again_when_the_last_consumer_member_is_gone(how: str) -> None:
    talk = mixed("A", "B", session_ms=60_000)
    generation = talk.group.epoch
    if how == "leave":
        talk.leave("C")
    elif how == "expire":
        talk.advance(45_000)
    else:
        identity = MemberIdentity(member_id="m-C", group_instance_id=None, reason=None)
        talk.ask(LeaveGroupRequest(group_id=GROUP, members=(identity,)), 5)
    described = talk.describe_classic()
    assert (described.group_state, len(described.members)) == ("PreparingRebalance", 2)
    assert talk.heartbeat_group("A") is ErrorCode.rebalance_in_progress
    assert talk.context.classic_runtime[GROUP].generation == generation
    assert talk.listed() == [(GROUP, "classic", "PreparingRebalance")]
    talk.settle_all("A", "B")
    assert talk.shares("A", "B") == [2, 2]
    assert talk.classic("A").generation == generation + 1


def test_a_reload_in_the_middle_of_a_downgrade_rebalances_all_the_same() -> None:
    talk = mixed("A", "B")
    talk.leave("C")
    talk.failover(from_compacted=True)
    assert talk.heartbeat_group("A") is ErrorCode.rebalance_in_progress
    talk.settle_all("A", "B")
    assert talk.shares("A", "B") == [2, 2]


def test_a_group_upgraded_again_before_that_rebalance_knows_who_owns_what() -> None:
    talk = mixed("A")
    talk.join("D")  # the target has moved on, A has not
    owned = talk.classic("A").owned
    talk.leave("D")
    talk.leave("C")
    assert not talk.is_consumer_group
    talk.join("E", topics=("b",))
    held = talk.group.members[talk.classic("A").member_id].assignment.assigned
    assert {("a", partition & 0xFFFF) for partition in held} == owned
    talk.settle_all("A", "E")
    assert talk.shares("A", "E") == [4, 2]


def test_the_downgraded_group_offers_all_that_its_members_support() -> None:
    talk = mixed("A")
    talk.leave("C")
    [member] = talk.context.classic_runtime[GROUP].members.values()
    assert [protocol.name for protocol in member.protocols] == [EAGER]
    assert member.session_deadline_ms == talk.now + 10_000


def test_the_last_member_of_all_leaves_an_empty_consumer_group() -> None:
    talk = mixed("A")
    talk.leave_group("A")
    talk.leave("C")
    assert talk.is_consumer_group
    assert talk.listed() == [(GROUP, "consumer", "Empty")]


def test_a_run_of_the_assignor_that_ends_after_the_downgrade_is_ignored() -> None:
    talk = MixedTalk(in_place=False)
    mixed("A", "B", talk=talk)
    talk.join("D")
    assert talk.tasks
    talk.leave("D")
    talk.leave("C")
    assert not talk.is_consumer_group
    before = len(talk.records)
    talk.work()
    assert len(talk.records) == before


def test_a_consumer_of_a_classic_group_finds_its_offsets_after_both_conversions() -> None:
    talk = MixedTalk()
    talk.classic_group("A", "B")
    (topic, index), *_ = sorted(talk.classic("A").owned)
    assert talk.commit("A", topic, index, 11) is ErrorCode.none
    talk.join("C")
    talk.settle_all("A", "B", "C")
    assert talk.context.offsets[GROUP][topic][index].offset == 11
    talk.leave("C")
    talk.settle_all("A", "B")
    assert talk.context.offsets[GROUP][topic][index].offset == 11


# --- commits and descriptions


def test_a_classic_member_commits_in_its_member_epoch() -> None:
    talk = mixed("A")
    [(topic, index), *_] = sorted(talk.classic("A").owned)
    assert talk.commit("A", topic, index) is ErrorCode.none
    talk.classic("A").generation += 1
    assert talk.commit("A", topic, index) is ErrorCode.illegal_generation
    talk.classic("A").generation -= 1
    talk.join("D")
    talk.join_group("A")
    talk.classic("A").generation -= 1  # its commit was under way when it joined
    kept, *_ = talk.group.members[talk.classic("A").member_id].assignment.assigned
    assert talk.commit("A", "a", kept & 0xFFFF) is ErrorCode.none


def test_a_mixed_group_is_described_and_listed_as_a_consumer_group() -> None:
    talk = mixed("A")
    assert talk.describe_classic().error_code is ErrorCode.group_id_not_found
    assert talk.listed() == [(GROUP, "consumer", "Stable")]
    kinds = {m.member_id: m.member_type for m in talk.describe().members}
    assert kinds == {"m-C": 1, talk.classic("A").member_id: 0}


def test_people_are_told_of_each_conversion_and_the_diary_goes_on() -> None:
    talk = mixed("A")
    talk.leave("C")
    told = [fact.group_type for fact in talk.facts if isinstance(fact, GroupConverted)]
    assert told == ["consumer", "classic"]
    kinds = [event.kind for event in talk.shard.events(GROUP)]
    assert kinds[0] == "joined"
    assert kinds[-1] == "left"
    assert all(isinstance(event, MemberEvent) for event in talk.shard.events(GROUP))


# --- reloads


def test_a_log_cut_after_any_batch_of_a_migration_loads_to_the_same_whole_or_compacted() -> None:
    script = mixed("A", "B=i", protocol=COOPERATIVE)
    script.leave("C")
    script.settle_all("A", "B")
    for cut in range(len(script.records) + 1):
        if not _is_torn(script.records[:cut]):
            shown = []
            for from_compacted in (False, True):
                talk = MixedTalk()
                talk.records = script.records[:cut]
                talk.failover(from_compacted=from_compacted)
                talk.settle()
                shown.append(_shown(talk))
            assert shown[0] == shown[1]


def _shown(talk: MixedTalk) -> Any:
    """How the group looks to both APIs that describe it."""
    described = talk.describe()
    members = sorted(described.members, key=lambda member: member.member_id)
    return talk.listed(), talk.describe_classic(), described.group_epoch, members


def _is_torn(records: list[Record]) -> bool:
    """Whether a log ends within a conversion, whose records are one batch: all of them or none."""
    state: dict[type, Any] = {}
    for record in records:
        state[type(record.key)] = record.value
    consumer = state.get(ConsumerGroupMetadataKey) is not None
    target = state.get(ConsumerGroupTargetAssignmentMetadataKey) is not None
    classic = state.get(GroupMetadataKey) is not None
    return bool(records) and (consumer != target or consumer == classic)
