"""What transcripts cannot show well: facts, leases, elections, stalls, limits and costs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from protocol.groups.classic.group_type import CLASSIC
from protocol.groups.effects import Elected, Resigned, TimersDue
from protocol.groups.election import SLICE_MEMBERS
from protocol.groups.event_log import EVENTS_KEPT
from protocol.groups.facts import GroupDeleted, MemberEventKind, RebalanceOutcome
from protocol.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, Record
from protocol.wire.embedded import encode_subscription
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    MemberIdentity,
)
from tests.counting import calls
from tests.protocol.groups.classic.classic_talk import ClassicTalk, settle, stable
from tests.protocol.groups.conversation import GROUP, START_MS

UUID_4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


# -- names and reasons ---------------------------------------------------------------------------


def test_a_member_id_is_the_client_or_instance_id_and_a_uuid() -> None:
    talk = stable("D", "S=inst")
    assert re.fullmatch(f"D-{UUID_4}", talk.id("D"))
    assert re.fullmatch(f"inst-{UUID_4}", talk.id("S"))


@pytest.mark.parametrize(("length", "kept"), [(0, None), (1, 1), (255, 255), (256, 255)])
def test_a_reason_is_cut_to_255_characters(length: int, kept: int | None) -> None:
    """KIP-800."""
    talk = ClassicTalk()
    talk.join("S", instance="s", reason="x" * length)
    talk.leave("S", reason="y" * length)
    reasons = [event.reason for event in talk.events()]
    assert [None if each is None else len(each) for each in reasons] == [kept, kept]


def test_a_group_remembers_its_last_events() -> None:
    talk = stable("S=s")
    for number in range(3 * EVENTS_KEPT):
        talk.join("S", member_id="", reason=f"restart {number}")
    events = talk.shard.events(GROUP)
    assert [event.reason for event in events] == [
        f"restart {number}" for number in range(2 * EVENTS_KEPT, 3 * EVENTS_KEPT)
    ]
    assert talk.shard.events("nobody") == []


# -- facts ---------------------------------------------------------------------------------------


def test_a_rebalance_is_told_whole() -> None:
    talk = stable("A=a", "B=b")
    began = talk.now
    talk.join("C", instance="c", reason="more work")
    talk.advance(700)
    talk.join("A")
    talk.join("B")
    talk.advance(50)
    settle(talk, "A", "B", "C")
    told = talk.rebalances()[-1]
    assert (told.trigger, told.outcome) == ("member-joined", RebalanceOutcome.STABLE)
    assert (told.member_id, told.group_instance_id, told.reason) == (talk.id("C"), "c", "more work")
    assert (told.client_id, told.client_host) == ("C", "/127.0.0.1")
    assert (told.generation_before, told.generation_after) == (1, 2)
    assert [(p.name, p.started_ms - began, p.ended_ms - began) for p in told.phases] == [
        ("join", 0, 700),
        ("sync", 700, 750),
    ]
    assert told.assignments_before == {"a": b"p-A", "b": b"p-B"}
    assert told.assignments_after == {"a": b"p-A", "b": b"p-B", "c": b"p-C"}
    assert (told.protocol_type, told.protocol_name) == ("consumer", "range")
    assert told.leader_id == talk.id("A")


def test_a_zombie_is_noted_once_in_a_row() -> None:
    talk = stable("A=a", "B=b")
    old = talk.id("B")
    talk.join("B", member_id="")
    for _ in range(5):
        assert talk.heartbeat("Zombie", member_id=old, instance="b", generation=1) is (
            ErrorCode.fenced_instance_id
        )
    kinds = [event.kind for event in talk.shard.events(GROUP)]
    assert kinds.count(MemberEventKind.FENCED) == 1


# -- leases --------------------------------------------------------------------------------------


def test_only_a_settled_groups_heartbeat_can_be_repeated() -> None:
    talk = ClassicTalk()
    talk.join("A", instance="a")
    talk.advance(3_000)
    assert talk.heartbeat_reply("A").lease is None
    settle(talk, "A")
    reply = talk.heartbeat_reply("A")
    assert reply.lease is not None
    assert reply.lease.stamp == reply.lease.group.stamp
    assert talk.heartbeat_reply("A").lease is reply.lease


def end_by_join(talk: ClassicTalk) -> None:
    talk.join("C", instance="c")


def end_by_replacement(talk: ClassicTalk) -> None:
    talk.join("B", member_id="")


def end_by_leave(talk: ClassicTalk) -> None:
    talk.leave("B")


def end_by_expiry(talk: ClassicTalk) -> None:
    talk.advance(10_000)


def end_by_resignation(talk: ClassicTalk) -> None:
    talk.handle(Resigned())


def end_by_another_term(talk: ClassicTalk) -> None:
    talk.handle(Elected())


@pytest.mark.parametrize(
    "end",
    [
        end_by_join,
        end_by_replacement,
        end_by_leave,
        end_by_expiry,
        end_by_resignation,
        end_by_another_term,
    ],
)
def test_a_lease_ends_with_any_change(end: Any) -> None:
    talk = stable("A=a", "B=b")
    lease = talk.heartbeat_reply("B").lease
    assert lease is not None
    end(talk)
    assert lease.group.stamp != lease.stamp


def test_a_heartbeat_by_lease_keeps_the_session_alive() -> None:
    talk = stable("A=a")
    lease = talk.heartbeat_reply("A").lease
    assert lease is not None
    for _ in range(10):
        talk.advance(9_000)
        lease.member.session_deadline_ms = talk.now + lease.member.session_timeout_ms
    assert talk.heartbeat("A") is ErrorCode.none
    talk.advance(10_000)
    assert talk.state == "Empty"


# -- election, resignation, stalls ---------------------------------------------------------------


def many_groups(count: int) -> ClassicTalk:
    talk = ClassicTalk()
    for number in range(count):
        group = f"g{number}"
        talk.join("S", instance="s", member_id="", group=group)
        talk.advance(3_000)
        talk.sync("S", {"S": b"p"}, group=group)
    return talk


def test_an_election_builds_nothing_and_the_first_request_builds_its_group() -> None:
    talk = many_groups(20)
    last = talk.client("S")
    talk.failover()
    assert talk.context.classic_runtime == {}
    assert talk.heartbeat("S", group="g19", member_id=last.member_id) is ErrorCode.none
    assert list(talk.context.classic_runtime) == ["g19"]
    talk.advance(0)
    assert len(talk.context.classic_runtime) == 20


def test_the_other_groups_are_built_in_slices() -> None:
    talk = many_groups(3)
    loaded = [(key, hard.metadata) for key, hard in talk.context.groups.items()]
    shard = talk.new_shard()
    for number in range(SLICE_MEMBERS):
        _, metadata = loaded[number % 3]
        shard.replay(Record(GroupMetadataKey(group=f"x{number}"), metadata))
    shard.handle(Elected(), talk.now)
    rounds = 0
    while shard.next_deadline() == talk.now:
        shard.handle(TimersDue(), talk.now)
        rounds += 1
    assert rounds == 2
    assert len(shard._context.classic_runtime) == SLICE_MEMBERS


def test_a_group_built_late_counts_its_sessions_from_the_election() -> None:
    talk = stable("A=a", "B=b")
    talk.failover()
    shard, elected = talk.shard, talk.now
    talk.now = elected + 9_000  # the driver was busy: no timer has run yet
    assert talk.heartbeat("A") is ErrorCode.none
    talk.advance(1_000)
    assert talk.shard is shard
    assert [event.kind for event in talk.events()][-1] is MemberEventKind.EXPIRED
    assert talk.heartbeat("A") is ErrorCode.rebalance_in_progress


def test_a_loaded_group_that_is_too_large_rebalances_and_turns_the_last_away() -> None:
    talk = stable("A=a", "B=b", "C=c")
    talk.overrides = {"group.max.size": "2"}
    talk.failover()
    assert talk.heartbeat("A") is ErrorCode.rebalance_in_progress
    assert talk.join("A") is None
    assert talk.join("B") is None
    assert talk.join("C").error_code is ErrorCode.group_max_size_reached
    talk.advance(60_000)
    assert talk.last("A").error_code is ErrorCode.none
    settle(talk, "A", "B")
    assert talk.rebalances()[-1].trigger == "over-capacity"


def test_who_resigns_answers_everybody_and_wants_no_timer() -> None:
    talk = stable("A=a", "B=b")
    talk.join("C", instance="c")
    talk.handle(Resigned())
    reply = talk.replies[talk.client("C").ticket]
    answer: Any = reply.message
    assert answer.error_code is ErrorCode.not_coordinator
    assert reply.group_id is None
    assert talk.shard.next_deadline() is None
    assert talk.parked == {}


def test_nobody_is_expelled_for_our_own_stall() -> None:
    talk = stable("A=a", "B=b")
    talk.join("C", instance="c", session_ms=10_000)
    stall_ms = 3_600_000
    talk.now += stall_ms
    talk.shard.shift_deadlines(stall_ms)
    talk.advance(9_999)
    assert [event.kind for event in talk.events()] == [MemberEventKind.JOINED] * 3
    talk.advance(1)
    assert talk.events()[-1].kind is MemberEventKind.EXPIRED


def test_two_shards_told_the_same_say_the_same() -> None:
    first, second = (stable("A=a", "B", "C=c") for _ in range(2))
    assert [reply.message for reply in first.replies.values()] == [
        reply.message for reply in second.replies.values()
    ]
    assert first.records == second.records
    assert first.facts == second.facts


# -- limits --------------------------------------------------------------------------------------


def test_the_first_join_group_of_a_member_is_parked_for_five_minutes_at_most() -> None:
    talk = stable("A=a", session_ms=1_800_000, rebalance_ms=1_800_000)
    assert talk.join("B", instance="b", session_ms=1_800_000) is None
    talk.advance(299_999)
    assert talk.last("B") is None
    talk.advance(1)
    assert talk.last("B").error_code is ErrorCode.unknown_member_id
    assert talk.last("B").member_id == ""


@pytest.mark.parametrize(
    ("timeout_ms", "expected"),
    [
        (5_999, ErrorCode.invalid_session_timeout),
        (6_000, None),
        (20_000, None),
        (20_001, ErrorCode.invalid_session_timeout),
    ],
)
def test_session_timeouts_have_bounds(timeout_ms: int, expected: ErrorCode | None) -> None:
    talk = ClassicTalk(
        {"group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "20000"}
    )
    answer = talk.join("A", instance="a", session_ms=timeout_ms)
    assert (None if answer is None else answer.error_code) == expected


def test_by_default_a_static_member_may_be_away_for_half_an_hour() -> None:
    """KIP-345, "Server Side Changes"."""
    talk = stable("A=a", session_ms=1_800_000)
    talk.advance(1_799_999)
    assert talk.join("A", member_id="").generation_id == 1
    assert ClassicTalk().join("A", instance="a", session_ms=1_800_001).error_code is (
        ErrorCode.invalid_session_timeout
    )


def test_join_group_0_has_one_timeout_for_both() -> None:
    talk = stable("A", version=0, session_ms=7_000, rebalance_ms=-1)
    [record] = talk.records[-1].value.members  # type: ignore[union-attr]
    assert (record.session_timeout, record.rebalance_timeout) == (7_000, 7_000)


def test_a_restart_between_join_and_sync_of_a_settled_group_is_no_reason_to_rebalance() -> None:
    """KIP-345, "Join Group Logic Change": the new id is awaited in place of the old one."""
    talk = ClassicTalk()
    talk.join("A", instance="a", rebalance_ms=5_000)
    talk.join("B", instance="b", rebalance_ms=5_000)
    talk.advance(6_000)
    talk.sync("A", {"A": b"p0", "B": b"p1"})
    assert talk.join("B", member_id="", rebalance_ms=5_000).generation_id == 1
    talk.advance(6_000)
    assert talk.heartbeat("A") is ErrorCode.none
    assert talk.sync("B").assignment == b"p1"


def test_a_member_that_leaves_while_its_sync_group_is_parked_is_answered() -> None:
    talk = ClassicTalk()
    talk.join("A", instance="a")
    talk.join("B", instance="b")
    talk.advance(6_000)
    assert talk.sync("B") is None
    parked = talk.client("B").ticket
    talk.remove(MemberIdentity(member_id="", group_instance_id="b"))
    assert talk.answer(parked).error_code is ErrorCode.unknown_member_id


def test_a_session_that_ran_out_while_sync_group_was_parked_begins_anew_with_its_answer() -> None:
    talk = ClassicTalk()
    talk.join("A", instance="a", session_ms=60_000)
    talk.join("B", instance="b", session_ms=6_000)
    talk.advance(6_000)
    assert talk.sync("B") is None
    talk.advance(30_000)
    settle(talk, "A")
    assert talk.last("B").error_code is ErrorCode.none
    talk.advance(5_999)
    assert talk.state == "Stable"
    talk.advance(1)
    assert talk.events()[-1].kind is MemberEventKind.EXPIRED


# -- administration ------------------------------------------------------------------------------


def test_authorized_operations_are_told_to_who_asks() -> None:
    talk = stable("A=a")
    assert talk.describe().authorized_operations == -(2**31)
    assert talk.describe(operations=True).authorized_operations == 0b1101_0100_1000


def test_deleting_a_group_deletes_its_offsets_and_voids_ids_given_out() -> None:
    talk = stable("A=a")
    key = OffsetCommitKey(GROUP, "topic", 0)
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=START_MS)
    talk.shard.replay(Record(key, value))
    talk.leave("A")
    talk.join("B")
    assert talk.delete(GROUP) == [ErrorCode.none]
    assert talk.records[-2:] == [Record(key, None), Record(GroupMetadataKey(group=GROUP), None)]
    assert isinstance(talk.facts[-1], GroupDeleted)
    assert talk.join("B").error_code is ErrorCode.unknown_member_id
    assert talk.describe().error_code is ErrorCode.group_id_not_found


def test_a_group_is_not_expired_under_a_member_that_is_about_to_join() -> None:
    talk = ClassicTalk()
    talk.join("A")
    assert not CLASSIC.is_abandoned(talk.context, GROUP)
    talk.advance(10_000)
    assert CLASSIC.is_abandoned(talk.context, GROUP)


def test_the_coordinator_reads_what_consumers_are_subscribed_to() -> None:
    topics = [("range", encode_subscription(["x", "y"]))]
    talk = stable("A=a", protocols=topics)
    context = talk.context
    assert CLASSIC.offsets.is_subscribed(context, GROUP, "x")
    assert not CLASSIC.offsets.is_subscribed(context, GROUP, "z")
    talk.failover()
    assert CLASSIC.offsets.is_subscribed(talk.context, GROUP, "x")
    talk.heartbeat("A")
    assert CLASSIC.offsets.subscribed_topics(talk.context, GROUP) == {"x", "y"}
    talk.leave("A")
    assert not CLASSIC.offsets.is_subscribed(talk.context, GROUP, "x")


def test_a_consumer_group_that_cannot_be_read_may_be_subscribed_to_anything() -> None:
    talk = stable("A=a", protocols=[("range", b"\x00")])
    assert CLASSIC.offsets.is_subscribed(talk.context, GROUP, "x")


# -- costs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["heartbeat", "rejoin", "join", "leave", "replacement", "sync"])
def test_a_request_costs_the_same_in_a_small_and_in_a_large_group(kind: str) -> None:
    _, small, large = (_cost(kind, members) for members in (5, 5, 200))
    assert small == large


def _cost(kind: str, members: int) -> int:
    names = [f"M{number}" for number in range(members)]
    talk = stable(*(f"{name}={name}" for name in names))
    if kind == "join":
        talk.join("New", instance="new")  # from here on the group rebalances
        return _handling(talk, lambda: talk.join("Other", instance="other"))
    if kind == "leave":
        talk.join("New", instance="new")
        return _handling(talk, lambda: talk.remove(MemberIdentity(member_id=talk.id("M2"))))
    if kind == "sync":
        talk.join("M0")
        for name in names[1:]:
            talk.join(name)
        return _handling(talk, lambda: talk.sync("M2"))
    asks = {
        "heartbeat": lambda: talk.heartbeat("M2"),
        "rejoin": lambda: talk.join("M2"),
        "replacement": lambda: talk.join("M2", member_id=""),
    }
    return _handling(talk, asks[kind])


def _handling(talk: ClassicTalk, ask: Any) -> int:
    """Count the calls within the shard alone, without the checks of ``ClassicTalk``."""
    handle = talk.shard.handle
    counted = 0

    class Counting:
        def handle(self, event: Any, now: int) -> Any:
            nonlocal counted
            result = None

            def run() -> None:
                nonlocal result
                result = handle(event, now)

            counted = calls(run)
            return result

    talk.shard = Counting()  # type: ignore[assignment]
    talk.take = lambda result: talk.replies.update({r.ticket: r for r in result.replies})  # type: ignore[method-assign]
    ask()
    return counted
