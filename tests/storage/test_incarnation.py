"""A start of a directory descends from every start that somebody has seen, or it is a copy's."""

from hypothesis import given
from hypothesis import strategies as st

from storage.disk.incarnation import (
    DIRECTORIES_MAX,
    TOKENS_MAX,
    Incarnation,
    PeerConfirmation,
    SeenIncarnations,
    descends,
)


def started(*tokens: str, last: Incarnation | None = None) -> Incarnation:
    now = last or Incarnation("directory")
    for token in tokens:
        now = now.next(token)
    return now


def test_each_start_descends_from_the_ones_before() -> None:
    first = started("a")
    third = started("b", "c", last=first)
    assert descends(first, None) and descends(first, first.seen)
    assert descends(third, first.seen) and third.number == 3
    assert not descends(first, third.seen)


def test_a_copy_is_told_apart_however_often_it_is_started() -> None:
    """Its number overtakes the original's, but it never learns the token that it lacks."""
    copy = started("a")
    original = started("b", last=copy)
    for number in range(TOKENS_MAX - 1):
        copy = copy.next(f"copy {number}")
        assert not descends(copy, original.seen)


@given(st.integers(1, 3 * TOKENS_MAX), st.integers(0, TOKENS_MAX - 1), st.data())
def test_copies_are_judged_wherever_they_branched_off(
    starts: int, own: int, data: st.DataObject
) -> None:
    history = [started("first")]
    for number in range(starts):
        history.append(history[-1].next(f"original {number}"))
    at = data.draw(st.integers(0, starts - 1))
    seen = data.draw(st.sampled_from(history[at + 1 :]))
    copy = history[at]
    for number in range(own):
        copy = copy.next(f"copy {number}")
    assert not descends(copy, seen.seen)
    assert all(descends(history[-1], earlier.seen) for earlier in history)


def test_who_was_away_for_too_many_starts_accepts_what_it_can_not_judge() -> None:
    old = started("a")
    assert descends(started(*map(str, range(TOKENS_MAX + 1)), last=old), old.seen)
    assert descends(old.next("accepted by an operator", 1_000), started("b", last=old).seen)


def test_the_memory_keeps_the_newest_start_of_each_directory() -> None:
    memory = SeenIncarnations()
    first, second = started("a"), started("a", "b")
    assert memory.judge(first) and memory.learn(first) and not memory.learn(first)
    assert memory.judge(second) and memory.learn(second)
    again = SeenIncarnations(memory.rows())
    assert not again.judge(first) and again.judge(second)
    assert again.judge(Incarnation("another").next("x"))


def test_the_memory_has_a_bound() -> None:
    memory = SeenIncarnations()
    for number in range(DIRECTORIES_MAX + 5):
        memory.learn(Incarnation(f"d{number}").next("t"))
    assert len(memory.rows()) == DIRECTORIES_MAX
    assert memory.rows()[0][0] == "d5"


def test_a_started_process_is_silent_until_its_peers_have_judged_it() -> None:
    vouching = PeerConfirmation({1, 2}, 1_000, 500)
    assert not vouching.is_over(1_000)
    vouching.accepted(1)
    assert not vouching.is_over(1_499) and vouching.is_over(1_500)
    vouching.accepted(2)
    assert vouching.is_over(1_000)
    assert PeerConfirmation((), 0, 500).is_over(0)
