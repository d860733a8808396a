"""One log sentence per rebalance; KIP-800: reasons are logged."""

import pytest

from actors.telemetry import log_messages
from actors.telemetry.log_messages import log_fields, log_message, log_message_for_many
from protocol.groups.classic.partitions_moved import PartitionMovement
from protocol.groups.facts import (
    GroupDeleted,
    GroupReconciled,
    MemberEventKind,
    RebalanceOutcome,
    RebalanceTrigger,
    TopicsCause,
    TopicsChanged,
)
from protocol.stories.causes import CAUSES, Cause
from tests.actors.telemetry.facts import NOW, member_event, rebalance, target_assigned

MOVED = PartitionMovement(assigned=40, moved=12, added=0, dropped=0)


def test_a_rebalance_says_generations_time_cause_members_and_partitions() -> None:
    assert log_message(rebalance(), MOVED) == (
        "group orders: rebalance 4→5 in 212 ms: member consumer-1-x (instance a, "
        'client consumer-1, /127.0.0.1) left: "closing"; 2 members, 12 of 40 partitions moved'
    )


@pytest.mark.parametrize(
    ("fields", "moved", "end"),
    [
        ({"outcome": RebalanceOutcome.EMPTY}, None, "; no members are left"),
        (
            {"outcome": RebalanceOutcome.RESTARTED},
            None,
            "; it began again before every member had its assignment",
        ),
        ({}, None, "; 2 members"),
        (
            {"assignments_after": {"a": b""}},
            PartitionMovement(assigned=1, moved=0, added=1, dropped=3),
            "; 1 member, 0 of 1 partition moved, 1 newly assigned, 3 without an owner for now",
        ),
        (
            {"trigger": RebalanceTrigger.OVER_CAPACITY, "member_id": "", "reason": None},
            MOVED,
            ": the group is larger than group.max.size allows; 2 members, "
            "12 of 40 partitions moved",
        ),
    ],
)
def test_a_rebalance_says_how_it_ended(
    fields: dict[str, object], moved: PartitionMovement | None, end: str
) -> None:
    assert log_message(rebalance(**fields), moved).endswith(end)


def test_a_static_member_that_came_back_is_told_with_the_fenced_id() -> None:
    event = member_event(
        kind=MemberEventKind.REPLACED, member_id="new", previous_member_id="old", reason=None
    )
    assert log_message(event) == (
        "group orders: member new (instance a, client consumer-1, /127.0.0.1) "
        "came back under a new member id, old is fenced from now on"
    )


def test_a_deleted_group_is_told() -> None:
    assert log_message(GroupDeleted(group_id="orders", time_ms=NOW)) == "group orders: is gone"


def test_a_consumer_group_tells_when_its_topics_change() -> None:
    changed = TopicsChanged(
        group_id="orders", time_ms=NOW, cause=TopicsCause.TOPICS_CHANGED, epoch=6
    )
    assert log_message(changed) == (
        "group orders: its topics have changed; its epoch is 6 from now on"
    )


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (TopicsCause.SHARE_STATE_INITIALIZED, "more of its partitions may be assigned"),
        (TopicsCause.TOPOLOGY_READY, "all topics of its topology exist"),
        (
            TopicsCause.TOPOLOGY_NOT_READY,
            "topics of its topology are missing or have other numbers of partitions",
        ),
        (TopicsCause.CONFIGS_CHANGED, "its assignment configs have changed"),
    ],
)
def test_share_and_streams_groups_tell_why_they_have_a_new_epoch(
    cause: TopicsCause, told: str
) -> None:
    changed = TopicsChanged(group_id="orders", time_ms=NOW, cause=cause, epoch=6)
    assert log_message(changed) == f"group orders: {told}; its epoch is 6 from now on"


def test_the_target_assignment_of_a_streams_group_is_told_in_tasks() -> None:
    line = log_message(target_assigned(group_type="streams", units="tasks", partitions_moved=1))
    assert line.endswith("1 of 2 members got another one, 1 task moved")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"cause": member_event(kind=MemberEventKind.LEFT, reason="consumer poll timeout")},
            "member consumer-1-x (instance a, client consumer-1, /127.0.0.1) left, because its"
            ' application did not poll in time: "consumer poll timeout"',
        ),
        (
            {"cause": member_event(kind=MemberEventKind.EXPIRED, reason=None), "inferred": "a gap"},
            "member consumer-1-x (instance a, client consumer-1, /127.0.0.1) sent no heartbeat"
            " within its session timeout (inferred: a gap)",
        ),
        ({"cause": TopicsCause.REGEX_RESOLVED}, "a regular expression matches other topics"),
        ({"cause": None, "elected_ms": NOW - 500}, CAUSES[Cause.FAILOVER].text),
        ({"cause": None}, "why is told by rollcall explain"),
    ],
)
def test_a_target_assignment_names_its_cause_as_the_story_does(
    fields: dict[str, object], why: str
) -> None:
    assert log_message(target_assigned(**fields)) == (
        f"group orders: target assignment 4→5 in 20 ms, uniform by a worker: {why};"
        " 1 of 2 members got another one, 3 partitions moved"
    )


def test_partitions_that_nobody_has_counted_are_not_told() -> None:
    assert log_message(target_assigned(partitions_moved=-1)).endswith("members got another one")


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (3, "all 3 members have the target assignment of epoch 6, 250 ms after it was made"),
        (1, "its member has the target assignment of epoch 6, 250 ms after it was made"),
        (0, "no members are left"),
    ],
)
def test_a_consumer_group_tells_when_all_have_their_assignment(members: int, told: str) -> None:
    fact = GroupReconciled(
        group_id="orders", time_ms=NOW + 250, epoch=6, assigned_ms=NOW, members=members
    )
    assert log_message(fact) == f"group orders: {told}"


def test_many_alike_are_told_at_once_with_their_reason() -> None:
    events = [member_event(member_id=f"m{i}", client_id="", client_host="") for i in range(700)]
    assert log_message_for_many(events) == (
        'group orders: 700 members left, the first of them member m0 (instance a): "closing"'
    )


def test_a_client_cannot_break_the_line_or_hide_text() -> None:
    event = member_event(reason="x\nERROR forged\x1b[2K", group_instance_id="ü\u202e")
    line = log_message(event)
    assert line.isprintable()
    assert 'left: "x\\nERROR forged\\x1b[2K"' in line
    assert "instance ü\\u202e" in line


def test_every_kind_and_trigger_has_its_words() -> None:
    assert set(log_messages.MEMBER_EVENTS) == set(MemberEventKind)
    assert set(log_messages.TRIGGERS) == set(RebalanceTrigger)
    assert set(log_messages.TOPICS) == set(TopicsCause)
    assert set(log_messages.OUTCOMES) == set(RebalanceOutcome) - {RebalanceOutcome.STABLE}


def test_a_line_names_its_group_and_member_in_fields() -> None:
    assert log_fields(member_event(member_id="m")) == {"group": "orders", "member": "m"}
    assert log_fields(rebalance(member_id="")) == {"group": "orders"}
    cause = member_event(member_id="m")
    assert log_fields(target_assigned(cause=cause)) == {"group": "orders", "member": "m"}
    assert log_fields(GroupDeleted(group_id="orders", time_ms=NOW)) == {"group": "orders"}
