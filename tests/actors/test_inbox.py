"""Requests wait in turn by group."""

import pytest

from actors.inbox import Inbox


def popped(inbox: Inbox[str]) -> list[str]:
    return [inbox.pop() for _ in range(len(inbox))]


@pytest.mark.parametrize(
    ("pushed", "served"),
    [
        ("a1", "a1"),
        ("a1 a2 a3", "a1 a2 a3"),
        ("a1 a2 a3 b1", "a1 b1 a2 a3"),
        ("a1 a2 b1 b2 c1", "a1 b1 c1 a2 b2"),
    ],
)
def test_groups_take_turns_and_within_one_the_first_come_is_served_first(
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
    assert inbox.pop() == "a1"
    inbox.push("a", "a3")
    assert popped(inbox) == ["b1", "a2", "a3"]


def test_nothing_can_be_taken_from_an_empty_inbox() -> None:
    with pytest.raises(IndexError):
        Inbox[str]().pop()
