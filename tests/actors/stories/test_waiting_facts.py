"""What waits for a thread is bounded in bytes, whatever clients send."""

import dataclasses
import logging
import threading
from typing import Any, get_args

import pytest

from actors.stories import waiting_facts
from actors.stories.waiting_facts import FACT_BYTES, WaitingFacts, size_of
from actors.telemetry.observer import Telemetry
from protocol.groups.facts import (
    Fact,
    GroupConverted,
    GroupDeleted,
    NamedMember,
    ResultReplicated,
    TakenOver,
    TargetAssignmentFailed,
    TargetChange,
    TopicsCause,
    TopicsChanged,
)
from protocol.groups.topics import Topics
from protocol.records import MemberMetadata
from protocol.stories import movement
from tests.actors.telemetry.facts import NOW, member_event, rebalance, reconciled, target_assigned
from tests.protocol.stories.facts import Metadata
from tests.waiting import WITHIN_S, until

LARGE = 1_000_000
NO_MEMBER: dict[str, Any] = {
    "member_id": "m", "client_id": "c", "client_host": "h", "session_timeout": 1,
    "subscription": b"", "assignment": b"",
}  # fmt: skip
FACTS: tuple[Fact, ...] = (
    member_event(previous_member_id="was"),
    rebalance(),
    target_assigned(),
    reconciled(),
    GroupDeleted(group_id="orders", time_ms=NOW),
    GroupConverted(group_id="orders", time_ms=NOW, group_type="consumer", epoch=1, members=1),
    TopicsChanged(group_id="orders", time_ms=NOW, cause=TopicsCause.TOPICS_CHANGED, epoch=1),
    TargetAssignmentFailed(
        group_id="orders", group_type="consumer", epoch=1, time_ms=NOW, reason="no", is_final=True
    ),
    ResultReplicated(
        group_id="orders", number=1, partition=0, end_offset=1, appended_ms=NOW, time_ms=NOW
    ),
)


def large() -> dict[str, Any]:
    """What a fact may refer to that is large, in each of its fields."""
    named = NamedMember("m" * LARGE, Metadata("c"))
    change = {"before": {}, "after": (), "members": {}, "topics": Topics(), "total": None}
    blob = {"m": bytes(LARGE)}
    return {
        "assignments_before": (blob,),
        "assignments_after": (blob,),
        "members_before": ((MemberMetadata(**{**NO_MEMBER, "subscription": bytes(LARGE)}),),),
        "members_after": ((MemberMetadata(**{**NO_MEMBER, "subscription": bytes(LARGE)}),),),
        "last_joined": (member_event(client_id="c" * LARGE),),
        "cause": (member_event(reason="r" * LARGE),),
        "change": (
            TargetChange(**{**change, "before": blob}, is_whole=True),
            TargetChange(**{**change, "after": tuple(blob.items())}, is_whole=True),
        ),
        "awaited": ((named,), (NamedMember("m", Metadata("c" * LARGE)),)),
        "taken_over": ((TakenOver(NOW, named),),),
        "last": (named,),
    }


def test_every_fact_is_measured() -> None:
    assert {type(each) for each in FACTS} == {*get_args(Fact)}


@pytest.mark.parametrize("fact", FACTS, ids=lambda each: type(each).__name__)
def test_a_fact_is_as_large_as_what_it_keeps(fact: Fact) -> None:
    assert FACT_BYTES < size_of(fact) < 5_000
    for field in dataclasses.fields(fact):
        values = large().get(field.name, ())
        if isinstance(getattr(fact, field.name), str) and type(getattr(fact, field.name)) is str:
            values = ("x" * LARGE,)
        if field.name == "cause" and isinstance(fact, TopicsChanged):
            continue
        for value in values:
            assert size_of(dataclasses.replace(fact, **{field.name: value})) >= LARGE, field.name


def test_a_fact_that_goes_to_two_queues_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Fact] = []
    monkeypatch.setattr(waiting_facts, "_measure", lambda fact: measured.append(fact) or 700)
    first, second = rebalance(), rebalance()
    queues = [WaitingFacts[Fact](size_of, 10) for _ in range(2)]
    for fact in (first, second):
        assert [each.put(fact) for each in queues] == [True, True]
    assert list(map(id, measured)) == [id(first), id(second)]
    assert [each.size for each in queues] == [1_400, 1_400]


def test_what_was_taken_counts_until_the_next_is_taken() -> None:
    queue, closing = WaitingFacts[bytes](len, 100, 1_000), threading.Event()
    closing.set()
    assert [queue.put(bytes(400)) for _ in range(5)] == [True, True, True, False, False]
    assert len(queue.take(closing)) == 3
    assert queue.size == 1_200
    assert not queue.put(b"x"), "the thread still has what it took"
    queue.wake()
    assert queue.take(closing) == []
    assert queue.size == 0
    assert queue.put(bytes(5_000)), "one may be larger than all may be"
    assert not queue.put(b"x")


def test_large_assignments_wait_within_a_bound_and_what_is_dropped_is_counted() -> None:
    """The thread hangs, as it does while a log's disk does not answer."""
    asked, answer = threading.Event(), threading.Event()

    class Hanging(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            asked.set()
            answer.wait(WITHIN_S)

    log, handler = logging.getLogger("rollcall.groups"), Hanging()
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.INFO)
    telemetry = Telemetry({}, bytes_waiting_max=10 * LARGE)
    try:
        telemetry.observe(member_event())
        until(asked.is_set, WITHIN_S, "the thread hangs")
        for _ in range(50):
            telemetry.observe(rebalance(assignments_after={"a": bytes(LARGE)}))
        assert telemetry.drops.facts >= 39
        assert telemetry._facts.size < 12 * LARGE
        answer.set()
        until(lambda: not telemetry._facts.size, WITHIN_S, "all is told")
        before = telemetry.drops.facts
        telemetry.observe(member_event())
        assert telemetry.drops.facts == before
    finally:
        answer.set()
        telemetry.close()
        log.removeHandler(handler)
        log.setLevel(level)


def test_large_assignments_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(movement, "partitions_moved", lambda *both: compared.append(both))
    half = bytes(movement.BYTES_MAX // 2)
    fact = rebalance(assignments_before={"a": half}, assignments_after={"a": half})
    movement.count_classic(fact)
    assert len(compared) == 1
    more = dataclasses.replace(fact, assignments_after={"a": half, "b": b"x"})
    assert movement.count_classic(more) is None
    assert len(compared) == 1
