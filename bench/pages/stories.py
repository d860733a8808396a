"""How single groups fared in a run: from a record to what their pictures are drawn from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.pages.document import GroupStory, Mark
from bench.pages.groups import STORIES_EACH_MAX
from bench.pages.ownership import ROWS_MAX, STRETCHES_MAX, OwnershipTimes
from bench.pages.rebalances import rebalances
from bench.pages.trends import trends
from bench.scenarios.record import about, owners

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.pages.document import OwnershipPicture, RebalanceSpan
    from bench.scenarios.record import ScenarioRecord

MARKS_MAX: Final = 200
WORDS_MAX: Final = 400
"""Characters of a cause or a mark."""

REBALANCES_MAX: Final = 500
REPORT_REBALANCES_MAX: Final = 2_400
"""Rebalances of a group that are listed, and those of all groups of a report."""

REPORT_STRETCHES_MAX: Final = STRETCHES_MAX * STORIES_EACH_MAX // 3
"""All pictures of a report have at most about so many stretches."""


def stories(
    record: ScenarioRecord, groups: Iterable[str], pictures: int, notes: list[str]
) -> list[GroupStory]:
    """Return the stories of these groups.

    The report has as many ``pictures``. What is left out or summarised is added to ``notes``.
    """
    room = room_of(pictures)
    return [_story(record, name, room, notes) for name in groups]


class Room(NamedTuple):
    """How much of one group a report has room for."""

    stretches: int
    rebalances: int


def room_of(pictures: int) -> Room:
    """Return the room for each group of a report with so many pictures."""
    return Room(
        min(STRETCHES_MAX, REPORT_STRETCHES_MAX // max(1, pictures)),
        min(REBALANCES_MAX, REPORT_REBALANCES_MAX // max(1, pictures)),
    )


def bounded_rebalances(
    name: str, spans: Sequence[RebalanceSpan], room: Room, notes: list[str]
) -> list[RebalanceSpan]:
    """Return the rebalances of a group for which there is room, with bounded causes."""
    if len(spans) > room.rebalances:
        notes.append(f"{name}: the first {room.rebalances} of {len(spans)} generations are listed.")
    return [replace(each, cause=cut(each.cause)) for each in spans[: room.rebalances]]


def marks(record: ScenarioRecord, groups: Sequence[str], notes: list[str]) -> list[Mark]:
    """Return what was done; a text that begins with a group's name is about that group.

    If there are too many, faults are kept before what was done to a group.
    """
    made = [_mark(at_ms, text, frozenset(groups)) for at_ms, text in record.marks]
    if len(made) <= MARKS_MAX:
        return made
    notes.append(f"Only {MARKS_MAX} of {len(made)} marks are shown: faults, then the first ones.")
    in_order = sorted(range(len(made)), key=lambda number: made[number].group is not None)
    return [made[number] for number in sorted(in_order[:MARKS_MAX])]


def _mark(at_ms: int, text: str, groups: frozenset[str]) -> Mark:
    group, rest = about(text, groups)
    return Mark(at_ms=int(at_ms), text=cut(rest), group=group)


def cut(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= WORDS_MAX else f"{text[:WORDS_MAX]}..."


def _story(record: ScenarioRecord, name: str, room: Room, notes: list[str]) -> GroupStory:
    lives = record.of_group(name)
    duration_ms = record.ended_ms - record.began_ms
    times = OwnershipTimes(
        record.partitions[name], owners(record, lives), record.began_ms, duration_ms
    )
    moves = [moment for _, moment in times.changes()]
    spans = rebalances(record, lives, moves)
    listed = bounded_rebalances(name, spans, room, notes)
    picture = times.picture(
        is_exclusive=all(each.timeline.is_exclusive for each in lives),
        stretches_max=room.stretches,
    )
    if picture.form == "bands":
        notes.append(banded(name, picture, times, room.stretches))
    return GroupStory(
        group=name,
        rebalances=listed,
        trends=trends(record, lives, times),
        ownership=picture,
    )


def banded(name: str, picture: OwnershipPicture, times: OwnershipTimes, stretches_max: int) -> str:
    """Say that a picture is drawn in bands, and why."""
    stretches = sum(map(len, times.stretches))
    return (
        f"{name}: its {len(times.partitions):,} partitions had {stretches:,} stretches of"
        f" ownership, more than this picture shows ({ROWS_MAX:,} and {stretches_max:,}). Each row"
        f" stands for {picture.band} partitions and each column for {picture.step_ms / 1000:g} s:"
        " how many had no owner, and how many changed it."
    )
