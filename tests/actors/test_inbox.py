"""Requests wait in turn by group."""

from itertools import count

import pytest

from failover.inbox import ROW_MAX, Inbox, serve


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


def served(inbox: Inbox[str], seconds: float) -> list[str]:
    """Serve with a clock on which each look is a second later."""
    ticks, asked = count(), list[str]()
    assert serve(inbox, asked.append, lambda: float(next(ticks)), seconds) is bool(inbox)
    return asked


def test_items_are_served_until_the_time_is_over() -> None:
    inbox = filled(a=9)
    assert served(inbox, 3) == ["a0", "a1", "a2"]
    assert served(inbox, 0) == ["a3"]
    assert served(inbox, 100) == [f"a{n}" for n in range(4, 9)]


def test_each_item_tells_how_many_of_its_group_follow() -> None:
    inbox = filled(a=3, b=1)
    following = []
    while inbox:
        following.append((inbox.pop(), inbox.following))
    assert following == [("a0", 2), ("a1", 1), ("b0", 0), ("a2", 0)]
