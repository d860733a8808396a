"""One sentence in plain English for the story of a rebalance.

Of texts from clients everything that is not printable is escaped, and long ones are cut. Names that
are no plain words are quoted, so that none of them can pass for another part of the sentence.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.stories.causes import CAUSES, Cause
from protocol.stories.story import StoryOutcome, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from protocol.stories.story import Happened, RebalanceStory, Waited, Who

TOLD_MS: Final = 100
"""Shorter waits are in the story, and not in its sentence."""

UNSERVED_TOLD_MS: Final = 1_000
"""The same for partitions that nobody served."""

SHOWN_MAX: Final = 255
"""Characters of a text that are shown."""

_WORD: Final = re.compile(r"[^\s\"'\\();,→]+")

NAMES_TOLD: Final = 2
"""Members that a sentence names in one place."""

OUTCOMES: Final[Mapping[StoryOutcome, str]] = MappingProxyType(
    {
        StoryOutcome.STABLE: "",
        StoryOutcome.EMPTY: "no members are left",
        StoryOutcome.RESTARTED: "another rebalance began before it was done",
        StoryOutcome.UNDER_WAY: "its end was not seen yet",
        StoryOutcome.CONVERTED: "the group changed its type before it was done",
        StoryOutcome.UNCHANGED: "nothing else changed",
    }
)
WAITS: Final[Mapping[Wait, str]] = MappingProxyType(
    {
        Wait.JOIN: "waited {time} for {who}",
        Wait.INITIAL: "waited {time} for more members",
        Wait.EXPECTED: "waited {time} for expected {who}",
        Wait.ASSIGNMENT: "waited {time} for the assignment of {who}",
        Wait.INTERVAL: "waited {time} until the assignment interval was over",
        Wait.TARGET: "waited {time} until the new target was written",
        Wait.RECONCILE: "waited {time} for {who}",
    }
)


def sentence(story: RebalanceStory) -> str:
    """Return the story in one sentence, without a full stop."""
    return f"group {named(story.group_id)}: {short_sentence(story)}"


def short_sentence(story: RebalanceStory) -> str:
    """Return the sentence without the group's name."""
    return f"{_numbers(story)}{'; '.join(_clauses(story))}"


def plain(text: str) -> str:
    """Escape characters that are not printable, and shorten what is too long for a line."""
    text = text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 1]}…"
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def quoted(text: str) -> str:
    """Return a text in quotes, that it cannot leave."""
    return '"' + plain(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def named(text: str) -> str:
    """Return a name: as it is if it is one plain word, otherwise in quotes."""
    return plain(text) if _WORD.fullmatch(text) else quoted(text)


def person(who: Who) -> str:
    """Return a member's name and host, such as ``member web-3 (10.0.0.4)``."""
    host = who.host.removeprefix("/")
    return f"member {named(who.name)}" + (f" ({named(host)})" if host else "")


def event_text(event: Happened) -> str:
    """Return what happened to a member, such as ``member web-3 (10.0.0.4) left: "bye"``."""
    reason = f": {quoted(event.reason)}" if event.reason else ""
    return f"{person(event.who)} {plain(event.what)}{reason}"


def seconds(ms: float) -> str:
    """Return a duration as people read it: ``12.1 s``, or ``34 ms``."""
    return f"{ms / 1_000:.1f} s" if ms >= TOLD_MS else f"{ms:.0f} ms"


def _numbers(story: RebalanceStory) -> str:
    if story.after < 0:
        return ""
    what = "generation" if story.group_type == "classic" else "epoch"
    return f"{what} {story.before} → {story.after}: "


def _clauses(story: RebalanceStory) -> Iterator[str]:
    yield _cause(story) + (f" (inferred: {plain(story.inferred)})" if story.inferred else "")
    for wait in story.waits:
        if wait.wait_ms >= TOLD_MS:
            yield _wait(wait)
    queue_ms = story.queue_ms or 0.0
    computed_ms = queue_ms + (story.assignor_ms or 0.0)
    if computed_ms >= TOLD_MS:
        yield f"the assignor took {seconds(computed_ms)}, {seconds(queue_ms)} of it queued"
    yield from _partitions(story)
    if story.failover_ms is not None and not _says_enough(story):
        yield _taken_over(story.failover_ms)
    if OUTCOMES[story.outcome]:
        yield OUTCOMES[story.outcome]


def _says_enough(story: RebalanceStory) -> bool:
    """Whether a new coordinator explains nothing: it is the cause, or the group is new."""
    return story.cause is Cause.FAILOVER or (story.cause is Cause.JOINED and story.members <= 1)


def _taken_over(before_ms: int) -> str:
    if before_ms < TOLD_MS:
        return "its coordinator had just taken over"
    return f"its coordinator had taken over {seconds(before_ms)} before"


def _cause(story: RebalanceStory) -> str:
    row = CAUSES[story.cause]
    why = f", {quoted(story.reason)}" if story.reason else ""
    if row.is_of_member and story.who is not None:
        return f"{person(story.who)} {row.text}{why}"
    if row.is_of_member:
        return f"a member {row.text}{why}"
    if why and story.who is not None:
        return f"{row.text}{why}, says {person(story.who)}"
    return f"{row.text}{why}"


def _wait(wait: Waited) -> str:
    known = [named(each.name) for each in wait.who[:NAMES_TOLD]]
    others = wait.more + len(wait.who) - len(known)
    if others:
        known.append(f"{others} {'other' if others == 1 else 'others'}")
    who = ", ".join(known[:-1]) + (" and " if len(known) > 1 else "") + (known[-1] if known else "")
    told = WAITS[wait.what].format(time=seconds(wait.wait_ms), who=who or "its members")
    return f"{told}, which {plain(wait.ended)}" if wait.ended else told


def _partitions(story: RebalanceStory) -> Iterator[str]:
    is_given_up = bool(story.dropped) and story.outcome is StoryOutcome.EMPTY and not story.added
    if story.moved is not None and story.outcome is not StoryOutcome.UNCHANGED:
        if story.moved or not (story.added or is_given_up):
            of = f" of {story.total}" if story.total else ""
            yield f"{story.moved}{of} {_units(story, story.total or story.moved)} moved"
        if story.added:
            units = "" if story.moved else f"{_units(story, story.added)} "
            yield f"{story.added} {units}newly assigned"
    if story.dropped:
        units = f"{_units(story, story.dropped)} " if is_given_up and not story.moved else ""
        yield f"{story.dropped} {units}without an owner now"
    for each in story.unserved:
        if each.unserved_ms >= UNSERVED_TOLD_MS:
            units = _units(story, each.count)
            yield (
                f"{each.count} {units} of {named(each.who.name)} served by nobody for up to"
                f" {seconds(each.unserved_ms)}"
            )


def _units(story: RebalanceStory, count: int) -> str:
    units = plain(story.units)
    return units.removesuffix("s") if count == 1 else units
