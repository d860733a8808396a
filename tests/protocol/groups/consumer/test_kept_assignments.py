"""Assignments kept beyond the session timeout (KIP-345's future works)."""

from __future__ import annotations

import pytest

from protocol.groups.fleet import kept_assignments
from protocol.groups.fleet.kept_assignments import KeptAssignments
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP, TopicPartition

RETENTION = "group.instance.assignment.retention.ms"
NAMES = ("A", "S", "T")


def without_s(retention_ms: int) -> tuple[ConsumerTalk, frozenset[TopicPartition]]:
    """A group whose static member S has just expired; and what it had."""
    talk = ConsumerTalk(in_place=False, topics={"a": 6})
    talk.shard.group_configs = {GROUP: {RETENTION: str(retention_ms)}}
    for name in ("A", "S=s", "T=t"):
        talk.join(name)
    settle(talk, *NAMES)
    had = talk.client("S").owned
    assert len(had) == 2
    stay(talk, 45_000, "A", "T")
    assert talk.owned("A", "T") == [3, 3]
    return talk, had


def settle(talk: ConsumerTalk, *names: str) -> None:
    talk.advance(1)
    talk.work()
    talk.converge(*names)


def stay(talk: ConsumerTalk, milliseconds: int, *names: str) -> None:
    """Time passes, in which these members heartbeat."""
    end = talk.now + milliseconds
    while talk.now < end:
        talk.advance(min(20_000, end - talk.now))
        settle(talk, *names)


def comes_back(talk: ConsumerTalk) -> frozenset[TopicPartition]:
    talk.join("S=s", member_id="m-new")
    settle(talk, *NAMES)
    return talk.client("S").owned


@pytest.mark.parametrize(
    ("retention_ms", "pause_ms", "has_it"),
    [(60_000, 10, True), (60_000, 59_000, True), (60_000, 61_000, False), (0, 10, False)],
)
def test_an_instance_that_is_back_in_time_gets_what_it_had(
    retention_ms: int, pause_ms: int, has_it: bool
) -> None:
    talk, had = without_s(retention_ms)
    stay(talk, pause_ms, "A", "T")
    assert (comes_back(talk) == had) is has_it
    assert talk.owned(*NAMES) == [2, 2, 2]


def test_it_gets_it_though_its_run_fails_or_it_expires_once_more() -> None:
    talk, had = without_s(600_000)
    talk.join("S=s", member_id="m-1")
    talk.advance(1)
    talk.tasks.clear()  # nobody answers: the run is given up, and sent again
    stay(talk, 46_000, "A", "T")
    assert not talk.context.modern_runtime[GROUP].feed.earlier
    stay(talk, 50_000, "A", "T")
    assert comes_back(talk) == had


def test_a_successor_gets_what_its_instance_had() -> None:
    talk, had = without_s(600_000)
    talk.join("S=s", member_id="m-1")
    talk.leave("S", epoch=-2)
    assert comes_back(talk) == had


def test_a_group_in_which_a_spare_has_its_place_keeps_nothing_for_it() -> None:
    talk, _ = without_s(600_000)
    talk.shard.group_configs = {GROUP: {RETENTION: "600000", "group.active.members": "2"}}
    assert not comes_back(talk)
    assert talk.owned("A", "T") == [3, 3]
    assert not talk.context.modern_runtime[GROUP].feed.earlier


def test_so_many_are_kept_and_old_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_assignments, "KEPT_MAX", 3)
    kept = KeptAssignments()
    for number in range(5):
        kept.keep(f"i{number}", bytes([number]), until_ms=100 + number)
    assert [kept.take(f"i{number}", 0) for number in range(3)] == [None, None, b"\2"]
    kept.keep("i3", b"again", until_ms=200)
    kept.forget_old(150)
    assert len(kept) == 1
    assert (kept.take("i3", 199), kept.take("i3", 0)) == (b"again", None)
    kept.keep("i9", b"", until_ms=5)
    assert kept.take("i9", 5) is None
