"""Make the document of a page from the records of scenarios and their verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.pages.document import CostRow, Figure, GroupStory, Mark, ReportDocument, RunReport
from bench.pages.ownership import ROWS_MAX, STRETCHES_MAX, OwnershipTimes
from bench.pages.rebalances import rebalances
from bench.pages.trends import trends
from bench.scenarios.members import SESSION_TIMEOUT_MS
from bench.scenarios.record import owners

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.pages.document import OwnershipPicture
    from bench.scenarios.record import GroupCosts, ScenarioRecord
    from bench.scenarios.verdict import GroupVerdict, ScenarioVerdict

STORIES_MAX: Final = 12
"""Groups drawn for each run; the table of costs has all of them."""

MARKS_MAX: Final = 200
REBALANCES_MAX: Final = 500
SENTENCES_MAX: Final = 20
"""Sentences of each check that are kept."""


class FigureRow(NamedTuple):
    """What a group pays, as a number, and the setting of ``expect`` that limits it."""

    value: Callable[[GroupCosts], float]
    limit: str | None


FIGURES: Final = {
    "rebalances": FigureRow(lambda each: each.rebalances, "rebalances_max"),
    "unavailable member-s": FigureRow(
        lambda each: each.unavailable_member_ms / 1000, "unavailable_member_seconds_max"
    ),
    "longest unowned s": FigureRow(lambda each: each.unowned_ms / 1000, "unowned_seconds_max"),
    "partitions moved": FigureRow(lambda each: each.moved, None),
    "failed members": FigureRow(lambda each: each.failed, None),
}
"""The figures of each group, under the names that the table of a verdict has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """One run to report: what it is called beside others, what was recorded, and the verdict."""

    name: str
    record: ScenarioRecord
    verdict: ScenarioVerdict


def report(
    title: str, about: str, runs: Sequence[ReportedRun], program: str, made: str = ""
) -> ReportDocument:
    """Return the document of these runs, one or several side by side."""
    pages = [_run(each) for each in runs]
    return ReportDocument(
        title=title,
        about=about,
        is_clean=all(page.is_clean for page in pages),
        verdict=pages[0].verdict if len(pages) == 1 else _compared(runs),
        program=program,
        made=made,
        runs=pages,
    )


def _compared(runs: Sequence[ReportedRun]) -> str:
    """Say which run cost least: clean ones first, then by the time without an assignment."""
    paid = []
    for run in runs:
        each = [group.costs for group in run.verdict.groups]
        unavailable_ms = sum(costs.unavailable_member_ms for costs in each)
        count = sum(costs.rebalances for costs in each)
        paid.append((not run.verdict.is_clean, unavailable_ms, count, run.name))
    paid.sort()
    words = [
        f"{name} {unavailable_ms / 1000:.1f} and {count}{', not clean' if is_broken else ''}"
        for is_broken, unavailable_ms, count, name in paid
    ]
    return (
        f"{paid[0][3]} cost least, in member-seconds without an assignment and in rebalances: "
        f"{'; '.join(words)}."
    )


def _run(run: ReportedRun) -> RunReport:
    record, verdict = run.record, run.verdict
    duration_ms = record.ended_ms - record.began_ms
    notes: list[str] = []
    chosen = _chosen(verdict.groups, notes)
    if len(record.marks) > MARKS_MAX:
        notes.append(f"Only the first {MARKS_MAX} of {len(record.marks)} marks are shown.")
    stories = [_story(record, each, duration_ms, notes) for each in chosen]
    if verdict.late:
        notes.append(f"{verdict.late} steps were late: the machine was too slow for the plan.")
    return RunReport(
        name=run.name,
        how=verdict.how,
        is_clean=verdict.is_clean,
        verdict=_sentence(verdict),
        duration_ms=duration_ms,
        changed_ms=record.changed_ms - record.began_ms,
        costs=[_costs(each) for each in verdict.groups],
        found={name: list(each)[:SENTENCES_MAX] for name, each in verdict.found.items()},
        marks=[
            _mark(at_ms, text, [each.group.name for each in verdict.groups])
            for at_ms, text in record.marks[:MARKS_MAX]
        ],
        stories=stories,
        notes=notes,
    )


def _sentence(verdict: ScenarioVerdict) -> str:
    if verdict.is_clean:
        limited = sum(each.limit is not None for row in verdict.groups for each in _figures(row))
        kept = f"every limit was kept ({limited})" if limited else "no limits were set"
        return f"No rule was broken, and {kept}.{_dearest(verdict)}"
    broken = [f"{name}: {len(each)}" for name, each in verdict.found.items()]
    broken += [
        f"{each.group.name} had {sentence.rstrip('.')}"
        for each in verdict.groups
        for sentence in each.exceeded
    ]
    return f"{'; '.join(broken)}."


def _dearest(verdict: ScenarioVerdict) -> str:
    """Say which group paid most."""
    most = max(verdict.groups, key=lambda each: each.costs.unavailable_member_ms, default=None)
    if most is None or not most.costs.unavailable_member_ms:
        return ""
    return (
        f" {most.group.name} paid most: {most.costs.rebalances} rebalances, and"
        f" {most.costs.unavailable_member_ms / 1000:.1f} member-seconds without an assignment."
    )


def _figures(row: GroupVerdict) -> tuple[Figure, ...]:
    return tuple(
        Figure(
            name=name,
            value=figure.value(row.costs),
            limit=None if figure.limit is None else getattr(row.group.expect, figure.limit),
        )
        for name, figure in FIGURES.items()
    )


def _costs(row: GroupVerdict) -> CostRow:
    kind = f"{row.group.protocol}, {'static' if row.group.static else 'dynamic'}"
    return CostRow(
        group=row.group.name, kind=f"{row.costs.members} members, {kind}", figures=_figures(row)
    )


def _mark(at_ms: int, text: str, groups: Sequence[str]) -> Mark:
    group = next((each for each in groups if text.startswith(f"{each}: ")), None)
    return Mark(
        at_ms=int(at_ms), text=text if group is None else text[len(group) + 2 :], group=group
    )


def _chosen(groups: Sequence[GroupVerdict], notes: list[str]) -> Sequence[GroupVerdict]:
    """Return the groups to draw, in their order: what exceeds a limit, then what costs most."""
    if len(groups) <= STORIES_MAX:
        return groups
    notes.append(
        f"{STORIES_MAX} of {len(groups)} groups are drawn: those that exceed a limit, then those"
        " that cost most. The table has all."
    )
    costly = sorted(groups, key=lambda each: (not each.exceeded, -each.costs.unavailable_member_ms))
    drawn = {each.group.name for each in costly[:STORIES_MAX]}
    return [each for each in groups if each.group.name in drawn]


def _story(
    record: ScenarioRecord, row: GroupVerdict, duration_ms: int, notes: list[str]
) -> GroupStory:
    name = row.group.name
    lives = record.of_group(name)
    times = OwnershipTimes(
        record.partitions[name], owners(record, lives), record.began_ms, duration_ms
    )
    session_ms = row.group.session_timeout_ms or SESSION_TIMEOUT_MS
    moves = [moment for _, moment in times.changes()]
    spans = rebalances(record, lives, session_ms, moves)
    if len(spans) > REBALANCES_MAX:
        notes.append(f"{name}: the first {REBALANCES_MAX} of {len(spans)} generations are listed.")
    picture = times.picture(is_exclusive=all(each.timeline.is_exclusive for each in lives))
    if picture.form == "bands":
        notes.append(_banded(name, picture, times))
    return GroupStory(
        group=name,
        rebalances=spans[:REBALANCES_MAX],
        trends=trends(record, lives, times),
        ownership=picture,
    )


def _banded(name: str, picture: OwnershipPicture, times: OwnershipTimes) -> str:
    stretches = sum(map(len, times.stretches))
    return (
        f"{name}: its {len(times.partitions)} partitions had {stretches} stretches of ownership,"
        f" more than a picture shows ({ROWS_MAX} and {STRETCHES_MAX}). Each row stands for"
        f" {picture.band} partitions and each column for {picture.step_ms / 1000:g} s: how many"
        " had no owner, and how many changed it."
    )
