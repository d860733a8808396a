"""What a node remembers: a ring for each group, and a bound for all of them together."""

from actors.stories.file import entry_of
from protocol.groups.facts import MemberEventKind
from protocol.stories.history import ENTRY_BYTES, History, StoryEntry
from protocol.stories.teller import StoryTeller
from tests.protocol.stories.facts import NOW, event


def entry(group: str, number: int, *, revision: int = 0, data: bytes = b"{}") -> StoryEntry:
    return StoryEntry(group, 0, number, revision, 1_000 + number, data)


def numbers(history: History, group: str) -> list[int]:
    return [each.number for each in history.of_group(group).entries]


def test_the_oldest_of_a_group_makes_room_and_this_is_told() -> None:
    history = History(7, per_group=3)
    for number in (2, 1, 3):
        assert history.add(entry("a", number))
    assert history.of_group("a").since_ms == 7
    assert history.add(entry("a", 4))
    known = history.of_group("a")
    assert numbers(history, "a") == [2, 3, 4]
    assert (known.dropped, known.since_ms) == (1, 1_002)
    assert not history.add(entry("a", 1)), "it made room before"
    assert len(history) == 3


def test_a_new_leader_whose_clock_is_behind_is_heard() -> None:
    history, teller = History(0, per_group=3), StoryTeller(1)
    for number in range(5):
        history.add(entry("orders", NOW + 600_000 + number))
    teller.number_after(NOW + 600_004)
    behind = event(MemberEventKind.REPLACED, group_instance_id="i-3", changes_nothing=True)
    (story,) = teller.tell(behind)
    assert history.add(entry_of(story))
    newest = history.of_group("orders").entries[-1]
    assert newest.node_id == 1
    assert newest.ended_ms < NOW + 600_000


def test_a_later_revision_replaces_an_earlier_one() -> None:
    history = History(0)
    assert history.add(entry("a", 1, data=b"begun"))
    assert history.add(entry("a", 1, revision=1, data=b"ended"))
    assert not history.add(entry("a", 1, data=b"begun"))
    assert not history.add(entry("a", 1, revision=1))
    assert [each.data for each in history.of_group("a").entries] == [b"ended"]


def test_a_group_that_rebalances_all_the_time_does_not_push_out_the_others() -> None:
    one = len("a") + len(b"{}") + ENTRY_BYTES
    history = History(0, bytes_max=10 * one)
    history.add(entry("b", 0))
    for number in range(100):
        history.add(entry("a", number))
    assert numbers(history, "b") == [0]
    assert numbers(history, "a") == list(range(91, 100))
    assert history.size <= 10 * one


def test_groups_that_are_forgotten_leave_nothing() -> None:
    one = len("a") + len(b"{}") + ENTRY_BYTES
    history = History(5, bytes_max=3 * one)
    for number, group in enumerate("abcdef"):
        history.add(entry(group, number))
    assert len(history) == 3
    assert history.size == 3 * one
    gone = history.of_group("a")
    assert (gone.entries, gone.since_ms) == ((), 1_002), "nobody says that nothing happened"


def test_the_newest_of_all_groups() -> None:
    history = History(0)
    for number, group in enumerate("abab"):
        history.add(entry(group, number))
    assert [each.number for each in history.newest(3)] == [1, 2, 3]
    assert history.newest(0) == []
