"""What is told of a log that the cleaner has been at is as true as of the whole log, or not told.

The cleaner removes each record whose key is written again in what it has looked at, and in the end
tombstones. It may do so before a watch begins, or while it reads.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.groups.facts import MemberEvent, TargetAssigned, TopicsCause
from protocol.records import Record, encode
from protocol.stories.sentence import sentence
from protocol.stories.story import StoryOutcome
from tests.effort import examples
from tests.protocol.watching.kafka_group import KafkaGroup, Written
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

if TYPE_CHECKING:
    from protocol.stories.story import RebalanceStory

STEPS = 30


def cleaned(log: list[Written], read: int, looked_at: int, *, tombstones: bool) -> list[Written]:
    """Return what a reader gets that had come to ``read`` when the cleaner was at work."""
    last = {each.key: at for at, each in enumerate(log[:looked_at])}
    return [
        each
        for at, each in enumerate(log)
        if at < read
        or at >= looked_at
        or (last[each.key] == at and (tombstones or each.value is not None))
    ]


def told(log: list[Written]) -> list[RebalanceStory]:
    watched = Watched()
    for each in log:
        watched.now = each.time_ms
        watched.take(each.key, each.value)
    for _ in range(2):
        watched.tell(watched.watch.flush())
    assert watched.watch.unreadable == 0
    return list(watched.stories.values())


def check(
    group: KafkaGroup, stories: list[RebalanceStory], *, is_whole: bool, has_moves: bool = True
) -> None:
    for story in stories:
        if story.outcome is StoryOutcome.UNCHANGED:
            continue
        where = (sentence(story), story, is_whole)
        causes, who = group.causes[story.started_ms]
        if is_whole or not story.inferred:
            assert story.cause in causes, where
            assert not who or (story.who is not None and story.who.name == who), where
        if not has_moves:
            continue
        expected = group.moves(story.started_ms, story.before, story.after)
        assert (story.moved, story.added, story.dropped) == expected, (expected, *where)


@settings(max_examples=examples(300), deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    read=st.floats(0, 1),
    looked_at=st.floats(0, 1),
    tombstones=st.booleans(),
)
def test_what_is_told_is_true(seed: int, read: float, looked_at: float, tombstones: bool) -> None:
    group = KafkaGroup(random.Random(seed))
    for _ in range(STEPS):
        group.step()
    whole = told(group.log)
    check(group, whole, is_whole=True)
    epochs = {each.started_ms for each in whole if each.outcome is not StoryOutcome.UNCHANGED}
    end = write_ends(group.log, looked_at)
    start = write_ends(group.log[:end], read)
    # A tombstone stays for delete.retention.ms (a day), so no reader misses one while it reads.
    left = told(cleaned(group.log, start, end, tombstones=tombstones or start > 0))
    # One of a target's records may go while the others are read: then what moved is not known.
    check(group, left, is_whole=False, has_moves=start == 0)
    # Of what came after the cleaner's work only the first target may have nothing before it.
    since = group.log[end].time_ms if end < len(group.log) else 1 << 62
    late = {each for each in epochs if each >= since}
    assert len(late - {each.started_ms for each in left}) <= 1 + len(group.deaths)


def write_ends(log: list[Written], part: float) -> int:
    """Return where a write ends: about as much of the log is before it."""
    at = int(part * len(log))
    while 0 < at < len(log) and log[at].time_ms == log[at - 1].time_ms:
        at += 1
    return at


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
