"""Make the document of a page from the verdicts on histories (``rollcall check``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.histories.checks import CHECKS, Severity
from bench.pages.document import Figure, ReportDocument, RunReport
from bench.pages.groups import joined, sentence_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.histories.verdict import CheckOutcome, HistoryVerdict

TITLE: Final = "check of histories"
HOW: Final = "checked by Spark"


def check_report(verdicts: Sequence[HistoryVerdict]) -> ReportDocument:
    """Return the document of these verdicts, one run or several side by side."""
    runs = [_run(each) for each in verdicts]
    whats = dict.fromkeys(each.facts.what for each in verdicts)
    clean = sum(run.is_clean for run in runs)
    return ReportDocument(
        title=runs[0].name if len(runs) == 1 else TITLE,
        about=joined([*whats]),
        is_clean=clean == len(runs),
        verdict=runs[0].verdict if len(runs) == 1 else f"{clean} of {len(runs)} runs are clean.",
        program="Rollcall",
        made="",
        runs=runs,
    )


def _run(verdict: HistoryVerdict) -> RunReport:
    facts = verdict.facts
    found = [each for each in verdict.outcomes if each.count]
    figures = [Figure(name="rows", value=sum(facts.rows.values()))]
    figures += [_count(each) for each in verdict.outcomes]
    figures += [Figure(name=each.cost, value=each.value) for each in verdict.costs]
    figures += [
        Figure(name=f"rebalances: {each.cause}", value=each.rebalances) for each in verdict.causes
    ]
    return RunReport(
        name=facts.run_id,
        how=HOW,
        is_clean=verdict.is_clean,
        verdict=_sentence(verdict, found),
        duration_ms=max(facts.ended_ms - facts.changed_ms, 0),
        changed_ms=0,
        figures=figures,
        found={f"{each.check}: {CHECKS[each.check].sentence}": _examples(each) for each in found},
        notes=["Costs count from the first change of the run to its end."],
    )


def _count(outcome: CheckOutcome) -> Figure:
    is_rule = CHECKS[outcome.check].severity is Severity.BROKEN
    return Figure(name=outcome.check, value=outcome.count, limit=0 if is_rule else None)


def _examples(outcome: CheckOutcome) -> list[str]:
    return [f"{each.group_id}: {each.text}" for each in outcome.examples]


def _sentence(verdict: HistoryVerdict, found: Sequence[CheckOutcome]) -> str:
    reasons = [f"{each.check}: {each.count}" for each in found]
    if verdict.is_clean:
        suspects = f" Suspect is {sentence_of(reasons)}" if reasons else ""
        return f"No promise was broken ({len(verdict.outcomes)} checks).{suspects}"
    return sentence_of([*reasons, *verdict.exceeded])
