"""Requests wait in turn by group."""

from collections.abc import Callable, Iterable, Mapping
from itertools import count, islice

import pytest

from failover.requests.inbox import QUICK_S, ROW_MAX, Inbox, serve

Arrivals = Callable[[int, str], Iterable[str]]
"""By the number of the turn and the item that was served in it: whose items come now."""


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


def test_a_key_that_comes_again_waits_behind_the_others() -> None:
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


@pytest.mark.parametrize(
    ("units", "expected"),
    [(12, "aabbaa"), (11, "aabba"), (7, "aabb"), (6, "aab"), (2, "aa"), (0, "a")],
)
def test_a_turn_with_items_that_count_more_is_shorter(units: int, expected: str) -> None:
    """Each takes a unit of time; those of "b" count four."""
    unit = QUICK_S / 10
    inbox, ticks, asked = filled(a=4, b=4), count(), list[str]()
    serve(inbox, asked.append, lambda: next(ticks) * unit, (units - 0.5) * unit, is_of_b)
    assert "".join(item[0] for item in asked) == expected


def is_of_b(item: str) -> bool:
    return item[0] == "b"


def test_each_item_tells_how_many_of_its_group_follow() -> None:
    inbox = filled(a=3, b=1)
    following = []
    while inbox:
        following.append((inbox.pop(), inbox.following))
    assert following == [("a0", 2), ("a1", 1), ("b0", 0), ("a2", 0)]


def order(
    inbox: Inbox[str],
    costs: Mapping[str, float],
    turns: int,
    comes: Arrivals = lambda _, item: item,
) -> str:
    """Serve so often; each item takes what its group's do, and others come after it."""
    said = []
    for turn in range(turns):
        item = inbox.pop()
        said.append(item)
        inbox.took(costs.get(item, QUICK_S))
        for group in comes(turn, item):
            inbox.push(group, group)
    return "".join(said)


def test_quick_groups_and_costly_ones_have_half_of_the_time_each() -> None:
    """All always have one more request that waits."""
    served = order(filled_with("axby"), {"a": 10 * QUICK_S, "b": 10 * QUICK_S}, 880)
    assert 70 <= served.count("a") + served.count("b") <= 90
    assert abs(served.count("a") - served.count("b")) <= 2
    assert abs(served.count("x") - served.count("y")) <= 1


def test_who_asks_rarely_waits_for_one_costly_request_and_not_for_one_of_each_group() -> None:
    costly = dict.fromkeys("abcdefgh", 10 * QUICK_S)
    for turn in range(20, 40):
        served = order(
            filled_with("abcdefgh"),
            costly,
            60,
            lambda at, item, turn=turn: item.replace("z", "") + "z" * (at == turn),
        )
        assert served.index("z") == turn + 1


def test_groups_whose_requests_cost_the_same_take_turns() -> None:
    for cost_s in (0.0, QUICK_S):
        assert order(filled_with("abcd"), dict.fromkeys("abcd", cost_s), 40) == "abcd" * 10
    served = order(filled_with("abcd"), dict.fromkeys("abcd", 9 * QUICK_S), 44)
    assert served[4:] == served[4:8] * 10
    assert sorted(served[4:8]) == list("abcd")


def test_who_was_not_served_of_late_waits_for_few_of_those_who_ask_all_the_time() -> None:
    """However many they are, and although each asks under a new name all the time."""
    names = (f"{number}" for number in count())
    inbox: Inbox[tuple[str, str]] = Inbox(source_of=lambda item: item[0])
    busy = [f"busy-{number}" for number in range(200)]
    for client in busy:
        inbox.push(next(names), (client, ""))
    waited = []
    for turn in range(3_000):
        client, said = inbox.pop()
        inbox.took(QUICK_S)
        if client == "quiet":
            waited.append(turn - int(said))
        else:
            inbox.push(next(names), (client, ""))
        if turn > 500 and turn % 100 == 0:
            inbox.push("quiet", ("quiet", str(turn)))
    assert len(waited) >= 24
    assert max(waited) <= 8


def test_no_stream_of_new_clients_keeps_the_others_from_half_of_the_time() -> None:
    names = (chr(number) for number in count(0x4E00))
    inbox: Inbox[str] = Inbox(source_of=lambda item: item)
    served = order(
        filled_with("ab1234", inbox),
        {},
        400,
        lambda _, item: item if item in "ab" else next(names),
    )
    assert 160 <= served.count("a") + served.count("b") <= 240


def test_what_newcomers_had_while_nobody_else_waited_is_not_made_up_for() -> None:
    """They may have had it all for long: those who come then do not wait for the others' turn."""
    names = (f"{number}" for number in count())
    inbox: Inbox[str] = Inbox(source_of=lambda item: item)
    for new in islice(names, 10):
        inbox.push(new, new)
    for new in islice(names, 5_000):
        inbox.push(new, new)
        inbox.pop()
        inbox.took(QUICK_S)
    inbox.push("busy", "busy")
    while inbox.pop() != "busy":
        inbox.took(QUICK_S)
        new = next(names)
        inbox.push(new, new)
    waited = 0
    for name in ("busy", "quiet"):
        inbox.push(name, name)
    while inbox.pop() != "quiet":
        inbox.took(QUICK_S)
        inbox.push("busy", "busy")
        waited += 1
    assert waited <= 28  # some ten who came before, and as many turns of the busy one


def test_an_inbox_that_is_told_of_no_client_remembers_nobody() -> None:
    """Requests that are held back are never served there: nothing says that time goes by."""
    inbox: Inbox[str] = Inbox()
    for number in range(1_000):
        inbox.push(f"{number}", "x")
        inbox.pop()
    inbox.push("1", "known")
    for number in range(1_000, 1_100):
        inbox.push(f"{number}", "new")
    assert inbox.pop() == "known"
    assert not inbox._served_at_s


def test_no_stream_of_new_names_keeps_a_costly_group_from_half_of_the_time() -> None:
    """Each request beside the group's has a name of its own."""
    names = (chr(number) for number in count(0x4E00))
    served = order(
        filled_with("a1234"),
        {"a": 10 * QUICK_S},
        220,
        lambda _, item: item if item == "a" else next(names),
    )
    assert 18 <= served.count("a") <= 22


def test_a_costly_group_s_row_ends_when_a_quick_group_waits() -> None:
    inbox = filled(a=9, b=1, c=1, d=1, e=1)
    assert [inbox.pop(), inbox.took(10 * QUICK_S), inbox.pop()] == ["a0", None, "b0"]


def test_costly_groups_take_turns_too() -> None:
    inbox = filled(a=50, b=50)
    said = ""
    for _ in range(40):
        said += inbox.pop()[0]
        inbox.took(10 * QUICK_S)
    assert abs(said.count("a") - said.count("b")) <= 2


def test_what_took_long_is_forgiven_when_nobody_waited() -> None:
    inbox = filled_with("a")
    assert order(inbox, {"a": 100 * QUICK_S}, 1, lambda *_: "") == "a"
    assert order(filled_with("ab", inbox), {}, 2, lambda *_: "") == "ab"


def filled_with(groups: str, inbox: Inbox[str] | None = None) -> Inbox[str]:
    inbox = Inbox() if inbox is None else inbox
    for group in groups:
        inbox.push(group, group)
    return inbox
