"""Static members of consumer groups (KIP-345 in KIP-848's words)."""

from __future__ import annotations

from protocol.groups.facts import MemberEvent, MemberEventKind
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.timers import TimerKind
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk


def stable(*names: str) -> ConsumerTalk:
    talk = ConsumerTalk()
    for name in names:
        talk.join(name)
    talk.converge(*(name.partition("=")[0] for name in names))
    return talk


def restart(talk: ConsumerTalk, name: str, member_id: str) -> ErrorCode:
    talk.client(name).member_id = member_id
    return ErrorCode(talk.join(name, member_id=member_id).error_code)


def test_a_static_member_that_left_for_a_while_finds_its_partitions_again() -> None:
    talk = stable("A=i", "B")
    epoch, had = talk.group.epoch, talk.client("A").owned
    answer = talk.leave("A", -2)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, -2)
    talk.advance(40_000)
    talk.beat("B")
    assert restart(talk, "A", "m-A2") is ErrorCode.none
    assert talk.client("A").owned == had
    assert talk.group.epoch == epoch
    assert talk.group.static_members == {"i": "m-A2"}


def test_a_static_member_that_does_not_come_back_is_removed_when_its_session_ends() -> None:
    talk = stable("A=i", "B")
    talk.leave("A", -2)
    talk.advance(30_000)
    talk.beat("B")
    talk.advance(15_000)
    talk.converge("B")
    assert talk.owned("B") == [4]


def test_a_newcomer_waits_while_the_old_members_session_lasts() -> None:
    talk = stable("A=i")
    assert restart(talk, "A", "m-A2") is ErrorCode.unreleased_instance_id
    talk.advance(45_000)
    assert restart(talk, "A", "m-A2") is ErrorCode.none


def test_with_takeover_a_newcomer_has_the_place_at_once_and_the_old_one_is_fenced() -> None:
    talk = stable("A=i")
    talk.shard.group_configs = {"g": {"consumer.static.takeover.enable": "true"}}
    old_epoch, had = talk.client("A").epoch, talk.client("A").owned
    assert restart(talk, "A", "m-A2") is ErrorCode.none
    assert talk.client("A").owned == had
    zombie = talk.heartbeat("A", member_id="m-A", member_epoch=old_epoch)
    assert zombie.error_code is ErrorCode.fenced_instance_id
    kinds = [fact.kind for fact in talk.facts if isinstance(fact, MemberEvent)]
    assert kinds[-2:] == [MemberEventKind.REPLACED, MemberEventKind.FENCED]


def test_a_join_whose_answer_was_lost_does_not_fence_the_member_by_its_own_id() -> None:
    talk = stable("A=i")
    had = talk.client("A").owned
    assert restart(talk, "A", "m-A") is ErrorCode.none
    assert talk.client("A").owned == had


def test_a_static_member_leaves_for_good_with_epoch_minus_one() -> None:
    talk = stable("A=i", "B")
    talk.leave("A", -1)
    assert talk.group.static_members == {}
    talk.converge("B")
    assert talk.owned("B") == [4]


def test_an_instance_id_is_held_against_the_member_id() -> None:
    talk = stable("A=i", "B")
    epoch = talk.client("B").epoch
    for instance, code in (("i", ErrorCode.fenced_instance_id), ("j", ErrorCode.unknown_member_id)):
        answer = talk.heartbeat("B", instance_id=instance, member_epoch=epoch)
        assert answer.error_code is code
        answer = talk.heartbeat("B", instance_id=instance, member_epoch=-2)
        assert answer.error_code is code


def test_a_static_member_may_come_back_to_a_group_that_is_full() -> None:
    talk = ConsumerTalk({"group.consumer.max.size": "1"})
    talk.join("A=i")
    talk.leave("A", -2)
    assert restart(talk, "A", "m-A2") is ErrorCode.none


def test_what_a_static_member_was_giving_up_is_free_when_it_goes() -> None:
    talk = stable("A=i")
    talk.join("B")
    talk.beat("A")
    assert talk.describe().group_state == "Reconciling"
    talk.leave("A", -2)
    talk.beat("B")
    assert talk.owned("B") == [2]


def test_nobody_waits_for_a_static_member_that_is_away_under_any_leader() -> None:
    talk = stable("A=i")
    talk.join("B")
    talk.beat("A")  # is to give up two
    talk.leave("A", -2)
    talk.failover()
    talk.settle()
    assert talk.group.member("m-A").assignment.state is MemberState.UNREVOKED_PARTITIONS
    kind = TimerKind.REVOCATION
    assert talk.context.timers.deadline(kind, talk.group.group_id, "m-A") is None
