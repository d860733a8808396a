"""Make the document of a page from the records of scenarios and their verdicts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.pages.document import ReportDocument, RunReport
from bench.pages.groups import (
    GROUPS_MAX,
    STORIES_EACH_MAX,
    STORIES_MAX,
    PaidGroup,
    cost_rows,
    costliest,
    sentence_of,
    which_are_drawn,
)
from bench.pages.stories import marks, stories
from bench.scenarios.verdicts.cheapest import best_of_each_place, cheapest
from bench.scenarios.verdicts.measures import MEASURES
from bench.scenarios.verdicts.verdict import LIMITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scenarios.record import ScenarioRecord
    from bench.scenarios.verdicts.verdict import ScenarioVerdict

SENTENCES_MAX: Final = 20
"""Sentences of each check that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """One run to report: what it is called beside others, what was recorded, and the verdict.

    ``failures`` are sentences about what else is wrong with it.
    """

    name: str
    record: ScenarioRecord
    verdict: ScenarioVerdict
    failures: Sequence[str] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.verdict.is_clean and not self.failures


def report(
    title: str, about: str, runs: Sequence[ReportedRun], failures: Sequence[str] = ()
) -> ReportDocument:
    """Return the document of these runs, one or several side by side.

    ``failures`` are sentences about what else is wrong, of no single run.
    """
    if len(runs) == 1:
        runs, failures = [replace(runs[0], failures=(*failures, *runs[0].failures))], ()
    groups = [_paid(run) for run in runs]
    drawn = costliest(groups, max(1, min(STORIES_EACH_MAX, STORIES_MAX // len(runs))))
    shown = costliest(groups, GROUPS_MAX)
    pages = [
        _run(run, paid, drawn, shown, len(runs) * len(drawn))
        for run, paid in zip(runs, groups, strict=True)
    ]
    return ReportDocument(
        title=title,
        about=about,
        is_clean=all(page.is_clean for page in pages) and not failures,
        verdict=pages[0].verdict if len(pages) == 1 else _compared(runs, failures),
        program="Rollcall",
        made="",
        runs=pages,
    )


def _compared(runs: Sequence[ReportedRun], failures: Sequence[str]) -> str:
    """Say what else is wrong, and which run cost least; of several places, which one in each."""
    failures = [*failures, *(each for run in runs for each in run.failures)]
    verdicts = [run.verdict for run in runs]
    failed = [run.verdict for run in runs if run.failures]
    best = []
    if len({each.how for each in verdicts}) > 1:
        best = best_of_each_place(verdicts, failed)
    best = best or [cheapest([(run.name, run.verdict) for run in runs], failed)]
    return " ".join([*([sentence_of(failures)] if failures else []), *best])


def _paid(run: ReportedRun) -> list[PaidGroup]:
    return [
        PaidGroup(
            name=each.group.name,
            kind=f"{each.group.protocol}, {'static' if each.group.static else 'dynamic'}",
            costs=each.costs,
            limits={
                name: limit
                for name in LIMITS
                if (limit := getattr(each.group.expect, name)) is not None
            },
        )
        for each in run.verdict.groups
    ]


def _run(
    run: ReportedRun, paid: Sequence[PaidGroup], drawn: Sequence[str], shown: Sequence[str],
    pictures: int,
) -> RunReport:  # fmt: skip
    record, verdict = run.record, run.verdict
    of_name = {each.group.name: each for each in verdict.groups}
    notes = [each for each in verdict.remarked if each != verdict.forming]
    if len(of_name) > len(drawn):
        notes.append(which_are_drawn(len(drawn), len(of_name)))
    told = stories(record, [name for name in drawn if name in of_name], pictures, notes)
    return RunReport(
        name=run.name,
        how=verdict.how,
        is_clean=run.is_clean,
        verdict=" ".join(filter(None, (_sentence(run, paid), verdict.forming))),
        duration_ms=record.ended_ms - record.began_ms,
        changed_ms=record.changed_ms - record.began_ms,
        costs=cost_rows(paid, shown),
        found={name: list(each)[:SENTENCES_MAX] for name, (_, each) in verdict.violations.items()},
        marks=marks(record, [*of_name], notes),
        stories=told,
        notes=notes,
    )


def _sentence(run: ReportedRun, paid: Sequence[PaidGroup]) -> str:
    verdict = run.verdict
    if run.is_clean:
        limited = sum(len(each.limits) for each in paid)
        kept = f"every limit was kept ({limited})" if limited else "no limits were set"
        return f"No rule was broken, and {kept}.{_dearest(verdict)}"
    broken = [*run.failures]
    broken += [f"{name}: {count}" for name, (count, _) in verdict.violations.items()]
    broken += [
        f"{each.group.name} had {sentence}" for each in verdict.groups for sentence in each.exceeded
    ]
    return sentence_of(broken)


def _dearest(verdict: ScenarioVerdict) -> str:
    """Say which group paid most."""
    most = max(verdict.groups, key=lambda each: each.costs.unavailable_member_ms, default=None)
    if most is None or not most.costs.unavailable_member_ms:
        return ""
    return (
        f" {most.group.name} paid most: {MEASURES['rebalances'].said(most.costs.rebalances)}, and"
        f" {most.costs.unavailable_member_ms / 1000:,.1f} member-seconds without an assignment."
    )
