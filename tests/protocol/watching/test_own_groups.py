"""What is concluded from the records of our own groups, beside what their coordinator saw.

The transcripts of ``tests/transcripts`` run the real groups of every type. ``own_groups.txt`` has,
of each, the stories that the coordinator tells from its facts, and those told from its records.
``REWRITE_TRANSCRIPTS=1`` renews it for review.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol.groups.streams import task_records
from protocol.records import SHARE_STATE_TYPES, StreamsGroupCurrentMemberAssignmentKey, encode
from protocol.stories.sentence import sentence
from protocol.stories.story import RebalanceStory
from protocol.stories.teller import StoryTeller
from protocol.watching.watch import ClusterWatch
from tests.protocol.groups.conversation import Conversation
from tests.protocol.groups.test_transcripts import FOLDER, STAGES, TRANSCRIPTS
from tests.transcript_player import play

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.facts import Fact

EXPECTED = Path(__file__).with_name("own_groups.txt")


class Writing:
    """A conversation's records as they are written, with their times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.talks: list[tuple[Conversation[Any], list[tuple[int, Any]]]] = []
        take = Conversation.take

        def noted(talk: Conversation[Any], result: Any) -> None:
            if not self.talks or self.talks[-1][0] is not talk:
                self.talks.append((talk, []))
            self.talks[-1][1].extend((talk.now, each) for each in result.records)
            take(talk, result)

        monkeypatch.setattr(Conversation, "take", noted)


def told(facts: Iterable[Fact]) -> list[RebalanceStory]:
    teller, found = StoryTeller(0), {}
    for fact in facts:
        for story in teller.tell(fact):
            found[story.key] = story
    return list(found.values())


def concluded(talk: Conversation[Any], written: list[tuple[int, Any]]) -> list[RebalanceStory]:
    """Return the stories told from records; every group ends as the core has it."""
    watch, facts = ClusterWatch(), []
    watch.outlook.topics.replace(talk.shard.topics)
    for now, record in written:
        if type(record.key) in SHARE_STATE_TYPES:
            continue
        key, value = encode(record)
        if isinstance(record.key, StreamsGroupCurrentMemberAssignmentKey) and value is not None:
            value = task_records.to_kafka(value)  # a watch reads what a Kafka writes
        facts += watch.take(key, value, now)
    facts += [*watch.flush(), *watch.flush()]
    assert (watch.unreadable, sum(watch.unknown.values())) == (0, 0)
    assert set(watch.outlook.ctx.groups) >= {
        each for each, group in talk.context.groups.items() if group.is_logged
    }
    return told(facts)


def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found = []
    for path in TRANSCRIPTS:
        with monkeypatch.context() as patch:
            writing = Writing(patch)
            play(path.read_text(), STAGES[path.parent.name]())
        found.append(f"# {path.relative_to(FOLDER)}")
        for talk, written in writing.talks:
            found += [f"seen      {sentence(each)}" for each in told(talk.facts)]
            found += [f"concluded {sentence(each)}" for each in concluded(talk, written)]
    return found


def test_the_same_rebalances_are_told_from_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(lines(monkeypatch)) + "\n"
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        EXPECTED.write_text(text)
    assert EXPECTED.read_text() == text
