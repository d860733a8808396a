"""Render the document of a report as Markdown: the verdict and the tables, for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.pages.tables import (
    REBALANCE_HEADS,
    SENTENCE_MAX,
    bounded,
    duration,
    limit_words,
    number,
    rebalance_row,
)
from bench.report.sentences import faults_said, first_of, fitting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.pages.document import CostRow, Figure, GroupStory, ReportDocument, RunReport

SPECIAL: Final = str.maketrans(
    {each: f"\\{each}" for each in "\\`*_{}[]<>|#~"} | {"\n": " ", "\r": " "}
)
"""What would be read as Markdown or HTML in a name or a sentence."""

REBALANCES_EACH_MAX: Final = 20
REBALANCES_MAX: Final = 240
REBALANCES_EACH_LEAST: Final = 5
"""Rebalances that are listed of each group, and of all: a comment has room for 65,536 characters.

If very many groups rebalanced, some of each are listed nevertheless.
"""

COSTS_MAX: Final = 120
"""Rows of what groups paid, for all runs."""

WAITED: Final = "unavailable member-s"
"""The figure of a group by which those that cost most are chosen."""

NOTES_MAX: Final = 30
NOTE_RUNS_MAX: Final = 5
"""Notes that are told, and runs that are named of one that is not about all of them."""


def markdown(report: ReportDocument) -> str:
    """Return the report's verdict, costs, rebalances, violations and notes; it has no pictures."""
    return fitting([*_lines(report)])


def _lines(report: ReportDocument) -> Iterator[str]:
    word = "clean" if report.is_clean else "**NOT CLEAN**"
    yield f"### {_safe(report.title)}: {word}"
    yield ""
    yield _sentence(report.about)
    yield ""
    yield _sentence(report.verdict)
    if len(report.runs) > 1:
        yield ""
        for run in report.runs:
            judged = "clean" if run.is_clean else "**not clean**"
            yield f"- {_safe(run.name)}: {judged}. {_sentence(run.verdict)}"
    yield from _notes(report)
    yield from _figures(report)
    yield from _costs(report)
    yield from _rebalances(report)
    yield from _found(report)
    yield ""
    facts = dict.fromkeys(f"{each.how}, {duration(each.duration_ms)}" for each in report.runs)
    made = f", {report.made}" if report.made else ""
    yield _safe(f"{'; '.join(facts)}. Made by {report.program}{made}.")


def _notes(report: ReportDocument) -> Iterator[str]:
    """Yield the faults of the runs with their times, and what was late or left out: once each."""
    runs_of: dict[str, list[str]] = {}
    for run in report.runs:
        faults = [(mark.at_ms, mark.text) for mark in run.marks if mark.group is None]
        for sentence in filter(None, (faults_said(faults), *run.notes)):
            runs_of.setdefault(sentence, []).append(run.name)
    if runs_of:
        told = [_note(each, names, len(report.runs)) for each, names in runs_of.items()]
        yield from ("", *(f"- {_sentence(each)}" for each in first_of(told, NOTES_MAX, "notes")))


def _note(sentence: str, names: Sequence[str], runs: int) -> str:
    """Return a sentence with the runs that it is about, unless it is about all."""
    if len(names) == runs:
        return sentence
    more = len(names) - NOTE_RUNS_MAX
    others = [f"{more} more"] if more > 0 else []
    return f"{', '.join([*names[:NOTE_RUNS_MAX], *others])}: {sentence}"


def _figures(report: ReportDocument) -> Iterator[str]:
    """Yield the figures of whole runs: a row for each, a column for each run."""
    names = dict.fromkeys(figure.name for run in report.runs for figure in run.figures)
    if names:
        heads = [run.name for run in report.runs] if len(report.runs) > 1 else ["value"]
        found = [{each.name: each for each in run.figures} for run in report.runs]
        yield from _table(
            ["", *heads], [[name, *(_cell(each.get(name)) for each in found)] for name in names]
        )


def _costs(report: ReportDocument) -> Iterator[str]:
    """Yield what each group paid: a row for each group of each run, of very many the worst."""
    rows = [(run, row) for run in report.runs for row in run.costs]
    if len(rows) > COSTS_MAX:
        in_order = sorted(range(len(rows)), key=lambda number: _paid(rows[number][1]), reverse=True)
        said = f"{COSTS_MAX} of {len(rows)} groups are listed: those over a limit, then those that"
        yield from ("", f"{said} cost most.")
        rows = [rows[number] for number in sorted(in_order[:COSTS_MAX])]
    if rows:
        names = [figure.name for figure in rows[0][1].figures]
        which = ["run"] if len(report.runs) > 1 else []
        yield from _table(
            ["group", *which, "kind", *names],
            [_cost_row(run, row, is_named=bool(which)) for run, row in rows],
        )


def _paid(row: CostRow) -> tuple[bool, float]:
    """Return what orders groups by what they paid."""
    waited = next((each.value for each in row.figures if each.name == WAITED), None)
    return (not all(each.is_within for each in row.figures), waited or 0.0)


def _cost_row(run: RunReport, row: CostRow, *, is_named: bool) -> list[str]:
    return [
        row.group,
        *([run.name] if is_named else []),
        row.kind,
        *(_cell(figure) for figure in row.figures),
    ]


def _rebalances(report: ReportDocument) -> Iterator[str]:
    """Yield a short table for each group of each run that rebalanced after the first change."""
    told = [
        (run, story)
        for run in report.runs
        for story in run.stories
        if not all(each.is_initial for each in story.rebalances)
    ]
    most = max(REBALANCES_EACH_LEAST, min(REBALANCES_EACH_MAX, REBALANCES_MAX // max(1, len(told))))
    for run, story in told:
        at = f", {_safe(run.name)}" if len(report.runs) > 1 else ""
        yield from ("", f"Rebalances of {_safe(story.group)}{at}")
        yield from _listed(story, most)


def _listed(story: GroupStory, most: int) -> Iterator[str]:
    later = [each for each in story.rebalances if not each.is_initial]
    yield from _table(REBALANCE_HEADS, [rebalance_row(each) for each in later[:most]])
    if len(later) > most:
        yield from ("", f"{len(later) - most} more are not listed.")


def _found(report: ReportDocument) -> Iterator[str]:
    for run in report.runs:
        for name, sentences in run.found.items():
            at = f"{_safe(run.name)}: " if len(report.runs) > 1 else ""
            yield from ("", f"{at}{_safe(name)}", "")
            yield from (f"- {_safe(each)}" for each in sentences)


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    if not figure.is_judged:
        return number(figure.value)
    return f"{number(figure.value)} ({limit_words(figure)})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield ""
    yield _row(head)
    yield f"| {' | '.join(['---'] * len(head))} |"
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_safe, cells))} |"


def _sentence(text: str) -> str:
    return bounded(" ".join(text.split()), SENTENCE_MAX).translate(SPECIAL)


def _safe(text: str) -> str:
    return bounded(text).translate(SPECIAL)
