"""The history of a group for a test that asks or fails: sentences of its rebalances, and notes.

The sentences are those of ``rollcall explain``, and are asked over the wire as it does. Notes say
what the test itself has done to a group.
"""

from __future__ import annotations

import logging
from collections import deque
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from actors.cli.client import ClientError
from actors.cli.stories import ask
from actors.clock import wall_ms
from actors.telemetry.log_messages import log_message
from protocol.groups.facts import RebalanceEnded, ResultReplicated
from protocol.stories.movement import count_classic
from protocol.stories.sentence import event_text, named, seconds, sentence
from protocol.stories.under_way import under_way_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.cli.client import AdminClient
    from protocol.groups.facts import Fact
    from protocol.stories.story import RebalanceStory

NOTES_MAX: Final = 1_000
"""The notes about all groups that are kept; the oldest go first."""

GROUPS_MAX: Final = 10_000
"""The groups of which it is known when something happened; those of long ago go first."""

_log = logging.getLogger("rollcall.groups")


class GroupNotes:
    """Which groups something happened to, and notes; an ``Observer`` of all coordinators.

    What happens to members is logged here, as by every cluster.
    """

    def __init__(self) -> None:
        self._touched: dict[str, int] = {}
        self._notes: deque[tuple[int, str, str]] = deque(maxlen=NOTES_MAX)

    def observe(self, fact: Fact) -> None:
        """Note that something happened to a group, and log it."""
        if isinstance(fact, ResultReplicated):
            return
        moved = count_classic(fact) if isinstance(fact, RebalanceEnded) else None
        _log.info("%s", log_message(fact, moved))
        self._touch(fact.group_id)

    def run_context(self, _group_id: str, _run: int) -> str:
        """Return no context: there are no traces."""
        return ""

    def close(self, timeout_s: float = 0.0) -> None:
        """Do nothing: nothing waits here."""
        del timeout_s

    def note(self, group_id: str, began_ms: int, sentence: str) -> None:
        """Keep what the test itself has done to a group, and when it began to."""
        self._touch(group_id)
        self._notes.append((began_ms, group_id, f"group {named(group_id)}: {sentence}"))

    def of(self, group_id: str) -> list[tuple[int, str]]:
        """Return the notes about a group with their times, oldest first."""
        return [(time_ms, text) for time_ms, group, text in self._notes if group == group_id]

    def touched(self, since_ms: int) -> list[str]:
        """Return the groups to which something happened since then, in the order of that."""
        return [group for group, time_ms in self._touched.items() if time_ms >= since_ms]

    def _touch(self, group_id: str) -> None:
        self._touched.pop(group_id, None)
        self._touched[group_id] = wall_ms()
        if len(self._touched) > GROUPS_MAX:
            del self._touched[next(iter(self._touched))]


def history(client: AdminClient, notes: GroupNotes, group_id: str, since_ms: int = 0) -> list[str]:
    """Return what happened to a group since then, a line each, oldest first."""
    told = [
        (time_ms, _line(time_ms, "test", text))
        for time_ms, text in notes.of(group_id)
        if time_ms >= since_ms
    ]
    last = []
    try:
        answered = ask(client, group_id)
    except ClientError as error:
        last.append(f"group {named(group_id)}: its rebalances are not known: {error}")
    else:
        told += [
            (each.started_ms, "\n".join(_story_lines(each)))
            for each in answered.stories
            if each.ended_ms >= since_ms
        ]
        if (now := answered.now) is not None:
            text = f"group {named(group_id)}: {under_way_sentence(now)}"
            last.append(_line(now.since_ms, "now", text))
    lines = [line for _, text in sorted(told, key=itemgetter(0)) for line in text.splitlines()]
    return [*lines, *last] or [f"group {named(group_id)}: no rebalance"]


def _story_lines(story: RebalanceStory) -> Iterator[str]:
    """Yield a story, with what else happened to members: its sentence names one cause."""
    yield _line(story.started_ms, seconds(story.took_ms), sentence(story))
    if len(story.events) > 1:
        for event in story.events:
            yield f"    {_time(event.time_ms)} {event_text(event)}"


def _line(time_ms: int, took: str, text: str) -> str:
    return f"{_time(time_ms)} {took:>8}  {text}"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000).astimezone().isoformat(timespec="milliseconds")[11:23]
