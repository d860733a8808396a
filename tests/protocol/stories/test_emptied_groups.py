"""When the last member of a group goes, the story says who, why, and what nobody serves now.

The coordinator computes no target for nobody, so nothing else would tell of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.stories.sentence import sentence
from protocol.stories.story import RebalanceStory, StoryOutcome
from tests.protocol.groups.test_transcripts import STAGES
from tests.protocol.stories.test_sentences import told

if TYPE_CHECKING:
    from protocol.groups.facts import Fact

MODERN = ("consumer", "share", "streams")
ONE_MEMBER = {
    "consumer": "configs group.consumer.assignment.interval.ms=0; join A; work; beat A; beat A",
    "share": "configs group.share.assignment.interval.ms=0; join A; work; beat A; beat A",
    "streams": "configs group.streams.initial.rebalance.delay.ms=0; join A; beat A; beat A",
}
"""How one member of each type has everything."""

SERVED = {
    "consumer": (4, "partitions", "a-0"),
    "share": (4, "partitions", "a-0"),
    "streams": (3, "tasks", "0_0"),
}
"""How much that is, and the first of it."""

GOES = {
    "left": ("leave A", "left; "),
    "expired": ("advance 60s", "sent no heartbeat within its session timeout; "),
}


def facts_of(group_type: str, *texts: str) -> list[Fact]:
    """Play commands; return what the group reports."""
    stage = STAGES[group_type]()
    for text in texts:
        for line in text.split("; "):
            stage.run(line)
    return list(stage.talk.facts)


def play(group_type: str, *texts: str) -> list[RebalanceStory]:
    """Play commands; return the last revision of each story."""
    return told(facts_of(group_type, *texts))


@pytest.mark.parametrize("group_type", MODERN)
@pytest.mark.parametrize("how", GOES)
def test_the_last_member_goes(group_type: str, how: str) -> None:
    goes, why = GOES[how]
    *_, before, story = play(group_type, ONE_MEMBER[group_type], goes)
    count, units, first = SERVED[group_type]
    assert before.outcome is StoryOutcome.STABLE
    assert (story.outcome, story.cause.split("-")[-1], story.members) == ("empty", how, 0)
    assert (story.before, story.after) == (before.after, before.after + 1)
    assert (story.dropped, story.moved, story.added) == (count, 0, 0)
    move = story.moves[0]
    assert (move.unit, move.before, move.after) == (first, "A", "")
    assert [(each.who.name, each.count) for each in story.unserved] == [("A", count)]
    text = sentence(story)
    assert f"member A (127.0.0.1) {why}{count} {units} without an owner now; " in text
    assert text.endswith("; no members are left")
    if how == "expired":
        seconds = story.unserved[0].unserved_ms / 1000
        assert f"{count} {units} of A served by nobody for up to {seconds:.1f} s" in text
        assert seconds >= 40


@pytest.mark.parametrize("group_type", MODERN)
def test_members_that_go_one_after_the_other(group_type: str) -> None:
    """Nobody waits for the target that the first one's going asks for."""
    stories = play(group_type, ONE_MEMBER[group_type], "join B; leave A; leave B")
    assert [each.outcome for each in stories].count(StoryOutcome.EMPTY) == 1
    assert StoryOutcome.UNDER_WAY not in {each.outcome for each in stories}
    story = stories[-1]
    assert story.outcome is StoryOutcome.EMPTY
    assert story.who is not None
    assert story.who.name == "B"
    told = {each.who.name for other in stories for each in other.events if each.what == "left"}
    assert told == {"A", "B"}


@pytest.mark.parametrize("group_type", MODERN)
def test_a_member_that_comes_later_begins_where_the_group_was_empty(group_type: str) -> None:
    later = "beat B; beat B" if group_type == "streams" else "work; beat B; beat B"
    stories = play(group_type, ONE_MEMBER[group_type], f"leave A; advance 10s; join B; {later}")
    steps = [(each.before, each.after) for each in stories]
    assert [before for before, _ in steps[1:]] == [after for _, after in steps[:-1]]
    assert stories[-1].outcome is StoryOutcome.STABLE


@pytest.mark.parametrize("group_type", MODERN)
def test_the_last_member_goes_after_a_failover(group_type: str) -> None:
    """The new coordinator knows from the log what the member had."""
    *_, story = play(group_type, ONE_MEMBER[group_type], "failover; advance 90s")
    count, _, _ = SERVED[group_type]
    assert (story.outcome, story.cause, story.dropped) == ("empty", "session-expired", count)
