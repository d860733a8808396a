"""Tells the stories of rebalances from the facts that a coordinator's groups report, in order.

A classic group's rebalance is one fact. That of another group begins with a new target; its story
is told at once, as one under way, and again when its end is known: the later revision replaces the
first. So a coordinator that dies in between leaves the first half.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from protocol.groups.facts import (
    GroupConverted,
    GroupDeleted,
    GroupReconciled,
    MemberEvent,
    RebalanceEnded,
    TargetAssigned,
)
from protocol.stories import classic_draft, members
from protocol.stories.causes import Cause
from protocol.stories.history import STORIES_PER_GROUP
from protocol.stories.recent_events import EVENTS_PER_GROUP, RecentEvents
from protocol.stories.story import GROUP_ID_MAX, RebalanceStory, StoryOutcome, cut
from protocol.stories.target_draft import TargetDraft

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from protocol.groups.facts import Fact

EVENTS_MAX: Final = 50_000
"""The most events of all groups that wait for a story; the group that was quiet longest goes."""

DRAFTS_MAX: Final = 10_000
"""The most rebalances under way; beyond it the end of the oldest is not told."""


class StoryTeller:
    """Tells the stories of one node's groups."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._number = 0
        self._recent = RecentEvents[MemberEvent](EVENTS_PER_GROUP, EVENTS_MAX)
        self._drafts: OrderedDict[str, TargetDraft] = OrderedDict()
        self._converted: OrderedDict[str, None] = OrderedDict()

    def number_after(self, number: int) -> None:
        """Give later stories greater numbers than this one's, whatever the clock says."""
        self._number = max(self._number, number)

    def tell(self, fact: Fact, *, is_outlived: bool = False) -> Iterator[RebalanceStory]:
        """Take a fact; return the stories that it completes or begins.

        ``is_outlived``: its story would be forgotten at once (:func:`outlived`), and is not told.
        """
        group_id = fact.group_id
        if len(group_id) > GROUP_ID_MAX:
            return
        match fact:
            case MemberEvent():
                self._recent.add(fact)
                if fact.changes_nothing and not is_outlived:
                    yield self._numbered(_unchanged(fact))
            case RebalanceEnded():
                started_ms, ended_ms = fact.phases[0].started_ms, fact.phases[-1].ended_ms
                events = self._recent.take(group_id, started_ms, ended_ms, ended_ms)
                yield self._numbered(classic_draft.draft(fact, events))
            case TargetAssigned():
                yield from self._begin(fact)
            case GroupReconciled():
                yield from self._settle(fact)
            case GroupConverted():
                yield from self._end(group_id, StoryOutcome.CONVERTED, fact.time_ms)
                self._converted[group_id] = None
                if len(self._converted) > DRAFTS_MAX:
                    self._converted.popitem(last=False)
            case GroupDeleted():
                self._recent.forget(group_id)
                self._drafts.pop(group_id, None)
                self._converted.pop(group_id, None)
            case _:
                pass

    def _begin(self, fact: TargetAssigned) -> Iterator[RebalanceStory]:
        group_id = fact.group_id
        before = self._drafts.pop(group_id, None)
        events = self._recent.take(group_id, 0, fact.ended_ms, fact.started_ms)
        if before is not None and before.epoch == fact.epoch_before:
            yield before.restarted(fact, events)
        is_converted = self._converted.pop(group_id, 0) is None
        own = [each for each in events if each.time_ms >= fact.changed_ms]
        draft = TargetDraft(fact, own, is_converted=is_converted)
        draft.story = self._numbered(draft.story)
        self._drafts[group_id] = draft
        if len(self._drafts) > DRAFTS_MAX:
            self._drafts.popitem(last=False)
        for each in own:  # of the end of this story, too
            if each.time_ms < fact.started_ms:
                self._recent.add(each)
        yield draft.story
        draft.story = replace(draft.story, revision=1)

    def _settle(self, fact: GroupReconciled) -> Iterator[RebalanceStory]:
        draft = self._drafts.get(fact.group_id)
        if draft is None or draft.epoch != fact.epoch:
            return
        del self._drafts[fact.group_id]
        yield draft.settled(fact, self._recent.take(fact.group_id, 0, fact.time_ms, fact.time_ms))

    def _end(self, group_id: str, outcome: StoryOutcome, time_ms: int) -> Iterator[RebalanceStory]:
        draft = self._drafts.pop(group_id, None)
        if draft is not None:
            yield draft.ended(outcome, time_ms, self._recent.take(group_id, 0, time_ms, time_ms))

    def _numbered(self, story: RebalanceStory) -> RebalanceStory:
        """Give a story its number, which is greater than all before, whatever the clock says."""
        self._number = max(self._number + 1, story.ended_ms)
        return replace(story, node_id=self._node_id, number=self._number)


def outlived(facts: Sequence[Fact]) -> set[int]:
    """Return the places of facts whose stories the histories would forget at once.

    These are static members that came back, of which thousands may come together, followed by more
    of the same group than a history keeps. It keeps one less than are told: so it knows that there
    were others.
    """
    told: Counter[str] = Counter()
    found = set()
    for place in range(len(facts) - 1, -1, -1):
        fact = facts[place]
        if isinstance(fact, MemberEvent) and fact.changes_nothing:
            told[fact.group_id] += 1
            if told[fact.group_id] > STORIES_PER_GROUP + 1:
                found.add(place)
    return found


def _unchanged(event: MemberEvent) -> RebalanceStory:
    """Tell of a static member that came back, where nothing else has changed."""
    return RebalanceStory(
        group_id=event.group_id,
        node_id=-1,
        number=0,
        cause=Cause.STATIC_REPLACED,
        outcome=StoryOutcome.UNCHANGED,
        started_ms=event.time_ms,
        ended_ms=event.time_ms,
        who=members.of_event(event),
        reason=cut(event.reason),
    )
