"""Each trigger, for each type of group, has its sentence: ``sentences.txt`` has them all.

``transcripts.txt`` has the first sentence of each cause that the groups' own transcripts lead to:
these run the real groups. ``REWRITE_TRANSCRIPTS=1`` renews both for review.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol.groups.facts import MemberEventKind, RebalanceTrigger, TopicsCause
from protocol.stories import causes
from protocol.stories.causes import CAUSES, Cause
from protocol.stories.sentence import OUTCOMES, WAITS, sentence
from protocol.stories.story import StoryOutcome, Wait
from protocol.stories.teller import StoryTeller
from tests.protocol.groups.test_transcripts import STAGES, TRANSCRIPTS
from tests.protocol.stories.facts import event, rebalance, reconciled, target
from tests.transcript_player import play

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from protocol.groups.facts import Fact
    from protocol.stories.story import RebalanceStory

HERE = Path(__file__).parent
MODERN = ("consumer", "share", "streams")


def told(facts: Iterable[Fact]) -> list[RebalanceStory]:
    """Tell the stories of facts: of each the last revision, in the order of their numbers."""
    teller, found = StoryTeller(0), {}
    for fact in facts:
        for story in teller.tell(fact):
            found[story.key] = story
    return list(found.values())


def by_trigger() -> Iterator[tuple[str, RebalanceStory]]:
    """Tell a story for each trigger of each type, and for each reason that clients give."""
    for trigger in RebalanceTrigger:
        yield f"classic {trigger}", told([rebalance(trigger)])[-1]
    for text, _ in causes.REASONS:
        story = told([rebalance(RebalanceTrigger.MEMBER_REJOINED, reason=text)])[-1]
        yield f"classic reason {text!r}", story
    for group_type in MODERN:
        units = "tasks" if group_type == "streams" else "partitions"
        changes: list[tuple[str, Any]] = [(f"{kind}", event(kind)) for kind in MemberEventKind]
        changes += [(f"{cause}", cause) for cause in TopicsCause]
        changes += [("nobody knows", None)]
        for name, change in changes:
            fact = target(group_type=group_type, units=units, cause=change)
            yield f"{group_type} {name}", told([fact, reconciled()])[-1]


def test_each_trigger_of_each_type_has_its_sentence() -> None:
    check("sentences.txt", (f"{name}\n  {sentence(story)}" for name, story in by_trigger()))


def in_transcripts() -> dict[tuple[str, str], str]:
    """Play all transcripts; return the first sentence of each type and cause."""
    found: dict[tuple[str, str], str] = {}
    for path in TRANSCRIPTS:
        stage = STAGES[path.parent.name]()
        play(path.read_text(), stage)
        for story in told(stage.talk.facts):
            found.setdefault((story.group_type or "any", story.cause), sentence(story))
    return found


def test_the_groups_themselves_lead_to_these_sentences() -> None:
    found = in_transcripts()
    check("transcripts.txt", (f"{' '.join(each)}\n  {found[each]}" for each in sorted(found)))


def check(name: str, entries: Iterable[str]) -> None:
    path, text = HERE / name, "\n".join(entries) + "\n"
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(text)
    assert path.read_text() == text


def test_every_cause_is_told_and_has_advice() -> None:
    assert set(CAUSES) == set(Cause)
    assert all(row.text and row.advice for row in CAUSES.values())
    assert set(OUTCOMES) == set(StoryOutcome)
    assert set(WAITS) == set(Wait)


def test_every_trigger_has_a_cause() -> None:
    assert set(causes.OF_TRIGGERS) == set(RebalanceTrigger)
    assert set(causes.OF_MEMBERS) == set(MemberEventKind)
    assert set(causes.OF_TOPICS) == set(TopicsCause)


def test_every_cause_comes_from_something() -> None:
    """The rest is what the teller finds without a trigger."""
    found = {*causes.OF_TRIGGERS.values(), *causes.OF_MEMBERS.values(), *causes.OF_TOPICS.values()}
    found |= {cause for _, cause in causes.REASONS}
    assert set(Cause) - found <= {Cause.FAILOVER, Cause.CONVERTED, Cause.UNKNOWN}


@pytest.mark.parametrize(
    ("trigger", "reason", "cause"),
    [
        (RebalanceTrigger.MEMBER_LEFT, "consumer poll timeout has expired.", Cause.POLL_TIMEOUT),
        (RebalanceTrigger.MEMBER_LEFT, "the consumer is being closed", Cause.LEFT),
        (RebalanceTrigger.MEMBER_LEFT, None, Cause.LEFT),
        (RebalanceTrigger.MEMBER_EXPIRED, "poll timeout", Cause.EXPIRED),
        (
            RebalanceTrigger.LEADER_REJOINED,
            "cached metadata has changed from (version1) at the beginning of the rebalance",
            Cause.TOPICS_CHANGED,
        ),
    ],
)
def test_a_reason_says_more_about_what_a_client_did_by_itself(
    trigger: RebalanceTrigger, reason: str | None, cause: Cause
) -> None:
    assert causes.of_trigger(trigger, reason) is cause
