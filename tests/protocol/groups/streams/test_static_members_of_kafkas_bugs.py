"""Kafka's open bugs of static members as streams groups could have them, and more of KIP-345.

Those of classic groups are in ``tests/protocol/groups/classic``, those of consumer groups in
``tests/protocol/groups/consumer``. Share groups have no static members.
"""

from __future__ import annotations

from typing import Any

import pytest

from protocol.groups.facts import MemberEvent, MemberEventKind
from protocol.groups.modern.hard_state import JOIN_EPOCH
from protocol.wire import streams_messages as m
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.streams.streams_talk import (
    STATEFUL,
    StreamsTalk,
    subtopology,
    tasks,
    topology,
)


def stable(*names: str, **configs: str) -> StreamsTalk:
    """A group at rest; its static members have the group's tasks in equal parts."""
    talk = StreamsTalk({name.replace("_", "."): value for name, value in configs.items()})
    for name in names:
        talk.join(name, process_id=f"p-{name.partition('=')[0]}")
    for _ in range(3):
        for name in names:
            bare = name.partition("=")[0]
            talk.owning(bare, of(talk, bare))
    assert talk.group.state == "Stable"
    return talk


def of(talk: StreamsTalk, name: str) -> str:
    """The active tasks that the group's log says a member has."""
    shown = {each.member_id: each for each in talk.describe().members}
    return tasks(shown[talk.id(name)].assignment.active_tasks) or ""


def restart(talk: StreamsTalk, name: str, **more: Any) -> Any:
    """Let the member's next process join, with another id."""
    client = talk.client(name)
    client.member_id, client.epoch = f"{client.name}-again", 0
    return talk.join(name, **more)


# --- KAFKA-12759: a static member comes back otherwise than it was


@pytest.mark.parametrize(
    "changed",
    [
        {"process_id": "another"},
        {"rack_id": "r"},
        {"user_endpoint": m.StreamsUserEndpoint(host="other", port=1)},
        {"client_tags": (m.StreamsConfig(key="zone", value="z"),)},
    ],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.parametrize("after_failover", [False, True])
def test_a_static_member_that_comes_back_otherwise_begins_an_epoch(
    changed: dict[str, Any], after_failover: bool
) -> None:
    talk = stable("A=i", "B")
    if after_failover:
        talk.failover()
    epoch, had = talk.group.epoch, of(talk, "A")
    talk.leave("A", -2)
    answer = restart(talk, "A", **changed)
    assert answer.error_code is ErrorCode.none
    assert talk.group.epoch > epoch
    told = next(each for each in talk.describe().members if each.instance_id == "i")
    for field, value in changed.items():
        known = getattr(told, field)
        assert repr(value).partition("(")[2] in repr(known) or known == value
    assert of(talk, "A") == had


def test_a_static_member_that_comes_back_the_same_changes_nothing() -> None:
    talk = stable("A=i", "B")
    epoch, had = talk.group.epoch, of(talk, "A")
    talk.leave("A", -2)
    answer = restart(talk, "A", process_id="p-A")
    assert (talk.group.epoch, tasks(answer.active_tasks)) == (epoch, had)


def test_a_static_member_that_comes_back_with_another_topology_is_told_so() -> None:
    talk = stable("A=i", "B")
    talk.leave("A", -2)
    other = topology(subtopology(sources=("other",)), epoch=1)
    refused = restart(talk, "A", topology=other)
    assert refused.error_code is ErrorCode.invalid_request
    assert refused.error_message == "Topology updates are not supported yet."
    assert talk.group.static_members == {"i": "A"}  # its place is kept
    older = topology(*STATEFUL.subtopologies, epoch=0)
    answer = restart(talk, "A", topology=older)
    assert [each.status_code for each in answer.status] == [0]


# --- KAFKA-20985 and pull request 23542: a join whose answer is lost


@pytest.mark.parametrize("how", ["its answer was lost", "it was fenced by its epoch", "it left"])
def test_a_static_member_that_joins_with_its_own_id_is_not_refused(how: str) -> None:
    talk = stable("A=i", "B")
    had = of(talk, "A")
    if how == "it was fenced by its epoch":
        fenced = talk.beat("A", epoch=talk.client("A").epoch + 5)
        assert fenced.error_code is ErrorCode.fenced_member_epoch
    elif how == "it left":
        talk.leave("A", -2)
    answer = talk.join("A")
    assert (answer.error_code, tasks(answer.active_tasks)) == (ErrorCode.none, had)
    assert talk.group.static_members == {"i": "A"}
    assert talk.join("A").error_code is ErrorCode.none


def test_the_second_join_of_a_new_static_member_is_no_other_process() -> None:
    talk = StreamsTalk()
    talk.join("A=i")
    talk.client("A").epoch = JOIN_EPOCH
    assert talk.join("A").error_code is ErrorCode.none
    assert list(talk.group.members) == ["A"]
    assert restart(talk, "A").error_code is ErrorCode.unreleased_instance_id


def test_the_old_process_is_fenced_once_the_next_one_has_its_place() -> None:
    talk = stable("A=i", "B")
    epoch = talk.client("A").epoch
    talk.leave("A", -2)
    restart(talk, "A")
    for asked in (epoch, -1, -2):
        answer = talk.beat("A", epoch=asked, member_id="A")
        assert answer.error_code is ErrorCode.fenced_instance_id
    assert talk.join("A", member_id="A").error_code is ErrorCode.unreleased_instance_id
    assert talk.group.static_members == {"i": "A-again"}


@pytest.mark.parametrize("before", [None, "i"])
def test_a_member_that_joins_with_another_instance_id_has_that_one_and_no_other(
    before: str | None,
) -> None:
    talk = StreamsTalk()
    talk.join("A" if before is None else f"A={before}")
    assert talk.join("A", instance_id="j").error_code is ErrorCode.none
    assert talk.group.static_members == {"j": "A"}
    talk.failover()
    assert talk.group.static_members == {"j": "A"}


# --- pull requests 23712 and 23714: a member that stays in the group in silence


def test_members_wait_no_longer_than_a_session_for_a_member_that_stayed_in_silence() -> None:
    """A client that is closed with REMAIN_IN_GROUP (KIP-1092) says nothing; others do not stall."""
    talk = stable("A")
    last = talk.now
    talk.join("B")
    while of(talk, "B") != "0:012":
        talk.advance(1_000)
        talk.owning("B", of(talk, "B"))
        assert talk.now - last <= 47_000


def test_nobody_waits_for_a_static_member_that_went_while_it_had_tasks_to_give_up() -> None:
    talk = stable("A=i")
    talk.join("B")
    talk.beat("A")
    assert of(talk, "B") == ""
    talk.leave("A", -2)
    talk.beat("B")
    assert of(talk, "B") == "0:2"
    talk.advance(30_000)
    talk.owning("B", "0:2")
    talk.advance(15_000)
    talk.owning("B", "0:2")
    assert of(talk, "B") == "0:012"
    kinds = [fact.kind for fact in talk.facts if isinstance(fact, MemberEvent)]
    assert MemberEventKind.EXPIRED in kinds or MemberEventKind.LEFT in kinds


def test_the_tasks_of_a_static_member_that_is_away_are_kept_for_its_session() -> None:
    talk = stable("A=i", "B")
    had = of(talk, "A")
    talk.leave("A", -2)
    talk.failover()
    talk.advance(40_000)
    talk.beat("B")
    assert tasks(restart(talk, "A").active_tasks) == had


# --- leaving


def test_a_static_member_leaves_for_good_with_epoch_minus_one() -> None:
    talk = stable("A=i", "B")
    talk.leave("A", -1)
    assert talk.group.static_members == {}
    talk.beat("B")
    assert of(talk, "B") == "0:012"


def test_a_static_member_may_come_back_to_a_group_that_is_full() -> None:
    talk = stable("A=i", group_streams_max_size="1")
    talk.leave("A", -2)
    assert talk.join("B").error_code is ErrorCode.group_max_size_reached
    assert restart(talk, "A").error_code is ErrorCode.none


def test_an_instance_id_is_held_against_the_member_id() -> None:
    talk = stable("A=i", "B")
    epoch = talk.client("B").epoch
    for instance, code in (("i", ErrorCode.fenced_instance_id), ("j", ErrorCode.unknown_member_id)):
        for asked in (epoch, -1, -2):
            answer = talk.beat("B", epoch=asked, instance_id=instance)
            assert answer.error_code is code
