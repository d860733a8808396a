"""Requests wait in turn by group."""

from itertools import count

import pytest

from failover.inbox import PARTS_PER_REQUEST, ROW_MAX, Inbox, serve


def popped(inbox: Inbox[str]) -> list[str]:
    return [inbox.pop() for _ in range(len(inbox))]


@pytest.mark.parametrize(
    ("pushed", "served"),
    [
        ("a1", "a1"),
        ("a1 a2 a3", "a1 a2 a3"),
        ("a1 a2 a3 b1", "a1 a2 b1 a3"),
        ("a1 a2 a3 a4 b1 b2 c1", "a1 a2 a3 b1 b2 c1 a4"),
    ],
)
def test_groups_take_turns_the_longer_the_more_they_are_and_the_first_come_is_served_first(
    pushed: str, served: str
) -> None:
    inbox: Inbox[str] = Inbox()
    for item in pushed.split():
        inbox.push(item[0], item)
    assert popped(inbox) == served.split()
    assert not inbox


def test_whoever_comes_again_stands_behind_those_who_wait() -> None:
    inbox: Inbox[str] = Inbox()
    for item in ("a1", "a2", "b1"):
        inbox.push(item[0], item)
    assert [inbox.pop(), inbox.pop()] == ["a1", "a2"]
    inbox.push("a", "a3")
    assert popped(inbox) == ["b1", "a3"]


def test_no_group_is_served_more_than_so_often_in_a_row() -> None:
    inbox: Inbox[str] = Inbox()
    for group in range(100):
        for number in range(50):
            inbox.push(str(group), f"{group}-{number}")
    served = [inbox.pop().partition("-")[0] for _ in range(3 * ROW_MAX)]
    assert served == ["0"] * ROW_MAX + ["1"] * ROW_MAX + ["2"] * ROW_MAX


def test_nothing_can_be_taken_from_an_empty_inbox() -> None:
    with pytest.raises(IndexError):
        Inbox[str]().pop()


def filled(**groups: int) -> Inbox[str]:
    inbox: Inbox[str] = Inbox()
    for group, items in groups.items():
        for number in range(items):
            inbox.push(group, f"{group}{number}")
    return inbox


def served(inbox: Inbox[str], parts: int, seconds: float, seconds_max: float = 1e9) -> list[str]:
    """Serve with a clock on which each look is a second later."""
    ticks, asked = count(), []

    def ask(item: str) -> int:
        asked.append(item)
        return parts if item[0] == "a" else 0

    assert serve(inbox, ask, lambda: float(next(ticks)), seconds, seconds_max) is bool(inbox)
    return asked


def test_who_rewrites_a_large_record_is_followed_by_others_of_its_group_whatever_the_time() -> None:
    inbox = filled(a=50, b=50)
    parts = 10 * PARTS_PER_REQUEST
    assert served(inbox, parts, 1) == [f"a{n}" for n in range(10)]
    assert served(inbox, parts, 1) == ["b0"]
    assert served(inbox, parts, 3) == ["b1", *(f"a{n}" for n in range(10, 20))]


def test_a_long_row_ends_with_the_longest_time_and_goes_on_in_the_next_turn() -> None:
    inbox = filled(a=50, b=50)
    parts = 10 * PARTS_PER_REQUEST
    assert served(inbox, parts, 1, 4) == ["a0", "a1", "a2", "a3"]
    assert served(inbox, parts, 1) == [f"a{n}" for n in range(4, 10)]
    assert served(inbox, parts, 1) == ["b0"]


def test_a_row_ends_with_the_groups_last_item() -> None:
    inbox = filled(a=3, b=2)
    assert served(inbox, 1_000_000, 1) == ["a0", "a1", "a2"]
    inbox.push("a", "a3")
    assert served(inbox, 1_000_000, 2) == ["b0", "b1"]


def test_without_such_a_record_the_time_alone_decides() -> None:
    inbox = filled(a=9)
    assert served(inbox, 0, 3) == ["a0", "a1", "a2"]
    assert served(inbox, PARTS_PER_REQUEST - 1, 1) == ["a3"]
