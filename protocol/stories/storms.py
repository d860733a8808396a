"""Storms: groups that rebalance all the time, what causes it, who does it, and what to change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from protocol.stories.causes import CAUSES
from protocol.stories.sentence import named, seconds
from protocol.stories.story import StoryOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.stories.causes import Cause
    from protocol.stories.story import RebalanceStory

WINDOW_MS: Final = 10 * 60_000
"""How far back to look for a storm."""

RATE_MS_MIN: Final = 60_000
"""A rate is taken over this time at least; before that, people are told none."""

STORM_MIN: Final = 5
"""Fewer rebalances in the window are no storm."""

FLAPPER_SHARE: Final = 0.5
"""A member that causes this part of the rebalances, or more, is named."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How many of the window's rebalances had a cause."""

    cause: Cause
    count: int
    per_hour: float


@dataclass(frozen=True, slots=True)
class RebalanceStorm:
    """What the window's rebalances have in common; ``flapper`` causes most of them, "" if none."""

    count: int
    window_ms: int
    rates: tuple[Rate, ...]
    flapper: str
    flapper_count: int
    advice: tuple[str, ...]


def find_storm(stories: Sequence[RebalanceStory], now: int) -> RebalanceStorm | None:
    """Return the storm in the last ten minutes; None if the group is calm.

    Stories may end after ``now``: the clock of who tells them is ahead.
    """
    now = max([now, *(each.ended_ms for each in stories)])
    recent = [
        each
        for each in stories
        if now - WINDOW_MS <= each.started_ms and each.outcome is not StoryOutcome.UNCHANGED
    ]
    if len(recent) < STORM_MIN:
        return None
    window_ms = now - min(each.started_ms for each in recent)
    rated_ms = max(window_ms, RATE_MS_MIN)
    causes = Counter(each.cause for each in recent)
    rates = tuple(
        Rate(cause, count, count * 3_600_000 / rated_ms) for cause, count in causes.most_common()
    )
    names = Counter(_lasting(each) for each in recent if each.who is not None)
    flapper, count = names.most_common(1)[0] if names else ("", 0)
    if count < FLAPPER_SHARE * len(recent):
        flapper, count = "", 0
    advice = dict.fromkeys(CAUSES[rate.cause].advice for rate in rates[:2])
    return RebalanceStorm(len(recent), window_ms, rates, flapper, count, tuple(advice))


def storm_lines(storm: RebalanceStorm) -> list[str]:
    """Return a storm as lines for people."""
    is_rated = storm.window_ms >= RATE_MS_MIN
    by_cause = ", ".join(
        f"{each.count} x {each.cause}" + (f" ({each.per_hour:.0f} an hour)" if is_rated else "")
        for each in storm.rates
    )
    lines = [f"storm: {storm.count} rebalances in {seconds(storm.window_ms)}: {by_cause}"]
    if storm.flapper:
        lines.append(
            f"flapper: {named(storm.flapper)} caused {storm.flapper_count} of {storm.count}"
        )
    lines += [f"advice: {each}" for each in storm.advice]
    return lines


def _lasting(story: RebalanceStory) -> str:
    """Return what stays the same of a member that comes back: not its member id."""
    who = story.who
    assert who is not None
    return who.instance_id or (
        f"{who.client_id} at {who.host.removeprefix('/')}" if who.client_id else who.member_id
    )
