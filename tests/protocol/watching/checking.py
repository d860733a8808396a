"""Compares what is told of the log of a group with what its model knows.

The cleaner removes each record whose key is written again in what it has looked at, and in the end
tombstones. It may do so before a watch begins, or while it reads. What is told then is as true as
of the whole log, or not told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from protocol.stories.causes import CAUSES, Cause
from protocol.stories.sentence import sentence
from protocol.stories.story import StoryOutcome, Wait, Waited
from protocol.watching.gone import JITTER_MS
from tests.protocol.watching.records import Watched

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from protocol.stories.story import RebalanceStory
    from tests.protocol.watching.kafka_log import KafkaLog, Written

CLASSIC = "classic"


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


def write_ends(log: list[Written], part: float) -> int:
    """Return where a write ends: about as much of the log is before it."""
    at = int(part * len(log))
    while 0 < at < len(log) and log[at].time_ms == log[at - 1].time_ms:
        at += 1
    return at


def told(log: list[Written]) -> list[RebalanceStory]:
    watched = Watched()
    for each in log:
        watched.now = each.time_ms
        watched.take(each.key, each.value)
    for _ in range(2):
        watched.tell(watched.watch.flush())
    assert (watched.watch.unreadable, watched.watch.unknown) == (0, {})
    return list(watched.stories.values())


def check_whole(group: KafkaLog) -> None:
    """Check what is told of the whole log: all that is true, and nothing else."""
    stories = told(group.log)
    check(group, stories, is_whole=True)
    targets = [each for each in stories if each.after >= 0 and each.group_type != CLASSIC]
    assert {each.started_ms for each in targets} == group.told.keys()
    assert len(targets) == len(group.told)
    unchanged = [each for each in stories if each.outcome is StoryOutcome.UNCHANGED]
    came = [(each.ended_ms, each.who.name) for each in unchanged if each.who is not None]
    assert came == group.unchanged
    for story in targets:
        true, where = group.told[story.started_ms], (sentence(story), story)
        until_ms = true.written_ms - story.started_ms
        first = [Waited(what=Wait.TARGET, wait_ms=until_ms)] if until_ms else []
        assert [each for each in story.waits if each.what is Wait.TARGET] == first, where
        assert list(story.waits[: len(first)]) == first, where
        if true.done is not None:
            ended_ms, last = true.done
            assert story.outcome is StoryOutcome.STABLE, where
            assert story.ended_ms == ended_ms, where
            late = [each for each in story.waits if each.what is Wait.RECONCILE]
            assert [each.who[0].name for each in late if not each.ended] in ([], [last]), where
            assert all(late) or story.ended_ms == story.started_ms, where
        else:
            assert story.outcome is not StoryOutcome.STABLE, where
        assert story.members == true.members, where


def check_cleaned(
    group: KafkaLog, read: float, looked_at: float, *, tombstones: bool
) -> list[RebalanceStory]:
    """Check what is told of a log that the cleaner has been at."""
    end = write_ends(group.log, looked_at)
    start = write_ends(group.log[:end], read)
    left = told(cleaned(group.log, start, end, tombstones=tombstones or start > 0))
    known = without_hidden_lives(left, group.log[start:end] if start else (), group.deaths)
    check(group, known, is_whole=False, is_read_whole=start == 0)
    since = group.log[end].time_ms if end < len(group.log) else 1 << 62
    late = {each for each in group.told if each >= since}
    came = {each.started_ms for each in left}
    lives = 1 + sum(1 for each in group.deaths if each >= since)
    assert len(late - came) <= lives, (sorted(late - came), group.deaths)
    return left


def without_hidden_lives(
    stories: Sequence[RebalanceStory], looked_at: Sequence[Written], deaths: Iterable[int]
) -> list[RebalanceStory]:
    """Leave out what began in what the cleaner looked at, if the group was deleted in it.

    A reader that was before it does not see the end of one life: what is left of the next may go on
    just where the one before had come to. No log can show that.
    """
    times = {each.time_ms for each in looked_at}
    hidden = set() if times.isdisjoint(deaths) else times
    return [each for each in stories if each.started_ms not in hidden]


def check(
    group: KafkaLog, stories: list[RebalanceStory], *, is_whole: bool, is_read_whole: bool = True
) -> None:
    """Check that what is told is true: of a part of a log it may be less than all.

    If the cleaner was at work while it was read, a target may be gone of which the next one came.
    """
    for story in stories:
        if story.outcome is StoryOutcome.UNCHANGED:
            continue
        where = (sentence(story), story, is_whole)
        if story.group_type == CLASSIC:
            assert story.inferred, where
            assert not is_whole or story.cause in group.causes[story.ended_ms], where
            continue
        causes = group.causes[story.started_ms]
        if is_whole or not story.inferred:
            is_of_member = CAUSES[story.cause].is_of_member
            assert not is_of_member or story.who is not None, where
            why = story.cause, story.who.name if is_of_member and story.who is not None else ""
            others = () if is_whole else group.instead.get(story.started_ms, ())
            is_true = why in causes.items() or why in others
            assert is_true or _is_almost_late(story, causes), (causes, *where)
        if is_read_whole:
            true = group.told[story.started_ms]
            assert (story.before, story.after) == (true.before, true.after), (true, *where)
            assert (story.moved, story.added, story.dropped) == true.moves, (true, *where)


def _is_almost_late(story: RebalanceStory, causes: Mapping[Cause, str]) -> bool:
    """Whether a member went just before it would have been removed for its partitions.

    The times of records are not exact, so this is told as such a removal.
    """
    if story.cause is not Cause.NOT_REVOKED or story.who is None:
        return False
    kept_s, allowed_s = map(float, re.findall(r"([\d.]+) s\b", story.inferred))
    return 0 <= allowed_s - kept_s <= JITTER_MS / 1000 and story.who.name in causes.values()
