"""Which of several runs cost least, and by which measure: the sentence of terminals and reports.

Clean runs come first, then those with the shortest time without an assignment, fewest rebalances,
fewest partitions moved. Less than a second of a member's time is no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.scenarios.verdicts.measures import MEASURES, figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.scenarios.verdicts.verdict import ScenarioVerdict

DECISIVE: Final = ("unavailable_member_seconds", "rebalances", "partitions_moved")
"""The measures that decide, in this order; a difference of less than one does not."""

CLEAN: Final = "clean"
"""What decides before all measures."""


@dataclass(frozen=True, slots=True, eq=False)
class _Paid:
    """What all groups of a run paid together, by measure, in thousandths: whole numbers."""

    name: str
    is_clean: bool
    thousandths: Mapping[str, int]


def best_of_each_place(
    verdicts: Sequence[ScenarioVerdict], failed: Sequence[ScenarioVerdict] = ()
) -> list[str]:
    """Return for each place with several variants which of them costs least."""
    places: dict[str, list[tuple[str, ScenarioVerdict]]] = {}
    for each in verdicts:
        places.setdefault(each.how, []).append((each.variant, each))
    return [f"{how}: {cheapest(runs, failed)}" for how, runs in places.items() if len(runs) > 1]


def cheapest(
    runs: Sequence[tuple[str, ScenarioVerdict]], failed: Sequence[ScenarioVerdict] = ()
) -> str:
    """Say which of these runs cost least, by what, and which came next, each by its name.

    Those that ``failed`` are not clean, whatever their verdict says.
    """
    rest = [
        _paid(name, verdict, verdict.is_clean and not any(verdict is each for each in failed))
        for name, verdict in runs
    ]
    (best, why), *others = _in_order(rest)
    costs = _costs(best)
    if not others:
        return f"{_names(best)} cost the same: {costs}."
    second, *last = [each for each, _ in others]
    verb = "costs" if len(best) == 1 else "cost"
    if why == CLEAN:
        decided = "as it is clean" if len(best) == 1 else "as they are clean"
    else:
        decided = f"by {MEASURES[why].words}"
    more = f"; {', '.join(each.name for alike in last for each in alike)}" if last else ""
    return (
        f"{_names(best)} {verb} least, {decided}: {costs}."
        f" Then {_names(second)}: {_costs(second)}{more}."
    )


def _paid(name: str, verdict: ScenarioVerdict, is_clean: bool) -> _Paid:
    paid = [each.costs for each in verdict.groups]
    thousandths = {
        measure: sum(round(1000 * MEASURES[measure].value(each)) for each in paid)
        for measure in DECISIVE
    }
    return _Paid(name, is_clean, thousandths)


def _in_order(paid: Sequence[_Paid]) -> list[tuple[list[_Paid], str]]:
    """Return the runs that cost the same, cheapest first, and what the next ones lost by."""
    found: list[tuple[list[_Paid], str]] = []
    rest = [*paid]
    while rest:
        lost_by = _lost_by(rest)
        least = [each for each in rest if each not in lost_by]
        rest = [each for each in rest if each in lost_by]
        lost_later = _lost_by(rest)
        why = next((lost_by[each] for each in rest if each not in lost_later), "")
        found.append((least, why))
    return found


def _lost_by(paid: Sequence[_Paid]) -> dict[_Paid, str]:
    """Return what decided against each run that is not among the cheapest ones."""
    lost: dict[_Paid, str] = {}
    if any(each.is_clean for each in paid):
        lost = {each: CLEAN for each in paid if not each.is_clean}
    for measure in DECISIVE:
        left = [each for each in paid if each not in lost]
        least = min((each.thousandths[measure] for each in left), default=0)
        lost |= {each: measure for each in left if each.thousandths[measure] - least >= 1000}
    return lost


def _names(alike: Sequence[_Paid]) -> str:
    *first, last = [each.name for each in alike]
    return f"{', '.join(first)} and {last}" if first else last


def _costs(alike: Sequence[_Paid]) -> str:
    """Return what runs that cost the same paid: what may differ nevertheless is a range."""
    words = []
    for measure in DECISIVE:
        values = [round(each.thousandths[measure] / 1000, 1) for each in alike]
        low = f"{figure(min(values))} to " if min(values) < max(values) else ""
        words.append(f"{low}{MEASURES[measure].said(max(values))}")
    broken = "" if alike[0].is_clean else "not clean, "
    return f"{broken}{', '.join(words)}"
