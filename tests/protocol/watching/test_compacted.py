"""What is told of a log that the cleaner has been at: nothing of which the beginning is gone."""

from __future__ import annotations

from protocol.groups.facts import MemberEvent, TargetAssigned, TopicsCause
from protocol.records import Record, encode
from tests.protocol.watching.records import (
    Watched,
    current,
    epoch,
    generation,
    gone,
    joined,
    member,
    targets,
)


def test_the_first_epoch_that_is_left_of_a_group_changes_nothing_that_is_known() -> None:
    watched = Watched()
    watched.write(joined("a"))
    watched.now += 60_000
    watched.write(joined("b"), epoch(57), *targets(57, {"b": (2, 3)}), current("b", 57, 2, 3))
    watched.write(*targets(57, {"a": (0, 1)})[:-1], current("a", 57, 0, 1))
    assert watched.news() == []
    watched.now += 60_000
    watched.write(*gone("b"), epoch(58), *targets(58, {"a": (0, 1, 2, 3)}))
    watched.write(current("a", 58, 0, 1, 2, 3))
    (told,) = watched.news()
    assert told.startswith("epoch 57 → 58: member b (10.0.0.4) is gone")
    assert told.endswith("2 of 4 partitions moved")


def test_a_member_whose_first_record_is_gone_has_not_joined() -> None:
    watched = Watched()
    watched.write(epoch(7), *targets(7, {"a": (0, 1)}), current("a", 7, 0, 1))
    watched.now += 60_000
    facts = []
    for record in (joined("a", client_host="/10.0.0.5"), epoch(8, 2), *targets(8, {"a": (0,)})):
        facts += watched.watch.take(*encode(Record(*record)), watched.now)
    assert [each for each in facts if isinstance(each, MemberEvent)] == []
    (assigned,) = [each for each in facts if isinstance(each, TargetAssigned)]
    assert (assigned.epoch_before, assigned.cause) == (7, TopicsCause.TOPICS_CHANGED)


def test_epochs_that_go_back_begin_anew() -> None:
    """The tombstones of a group are gone, and another one has its id."""
    watched = Watched()
    watched.write(joined("a"), epoch(2), *targets(2, {"a": (0, 1)}), current("a", 2, 0, 1))
    watched.now += 60_000
    watched.write(epoch(3, 2), *targets(3, {"a": (0,)}), current("a", 3, 0))
    watched.news()
    watched.now += 60_000
    watched.write(joined("z"), epoch(2), *targets(2, {"z": (0, 1)}), current("z", 2, 0, 1))
    assert watched.news() == []
    watched.now += 60_000
    watched.write(joined("y"), epoch(3), *targets(3, {"z": (0,), "y": (1,)}))
    assert watched.news()[-1].startswith("epoch 2 → 3: member y (10.0.0.4) joined; 1 of 4")


def test_the_first_generation_that_is_left_of_a_group_changes_nothing_that_is_known() -> None:
    watched = Watched()
    watched.write(generation(57, member("a", 0, 1), member("b", 2, 3)))
    assert watched.news() == []
    watched.now += 60_000
    watched.write(generation(58, member("a", 0, 1, 2, 3)))
    (told,) = watched.news()
    assert told.startswith("generation 57 → 58: member b (10.0.0.4) is gone")


def test_nobody_waits_from_an_old_record_of_an_empty_group_on() -> None:
    """It was empty long before somebody came."""
    for number in (0, 57):
        watched = Watched()
        watched.write(generation(number))
        watched.now += 86_400_000
        watched.write(generation(number + 1, member("a", 0, 1)))
        (told,) = watched.news()
        assert "joined" in told
        assert "waited" not in told
