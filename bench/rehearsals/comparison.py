"""The runs of a rehearsal side by side: one table, who costs least, and what makes it fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.report.sentences import faults_said, fitting
from bench.scenarios.verdicts.applications import NOTHING_PAID, applications, paid_rank, together
from bench.scenarios.verdicts.cheapest import best_of_each_place
from bench.scenarios.verdicts.verdict import COLUMNS, COMPLAINTS_MAX
from failover.columns import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scenarios.record import GroupCosts
    from bench.scenarios.verdicts.applications import PaidRank
    from bench.scenarios.verdicts.conditions import FailOn
    from bench.scenarios.verdicts.verdict import ScenarioVerdict

ROWS_MAX: Final = 120
ROWS_EACH_LEAST: Final = 3
"""Rows of the table, for all runs, and for each of them if there are very many."""

FAILURES_MAX: Final = 40
FAILURES_EACH_MAX: Final = 3
"""Conditions to fail on that are told, and groups that are named of each."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdicts of all runs, and the conditions on which the rehearsal fails.

    ``lacks`` are sentences about what could not be done: without it nothing is clean.
    """

    verdicts: Sequence[ScenarioVerdict]
    fail_on: Sequence[FailOn] = ()
    lacks: Sequence[str] = ()

    @property
    def is_clean(self) -> bool:
        """Whether all was done, every run is clean and no condition to fail on holds."""
        is_whole = not self.lacks and all(each.is_clean for each in self.verdicts)
        return is_whole and not self.failures()

    def failures(self) -> list[str]:
        """Return a sentence for each condition to fail on that holds, for each group."""
        return [sentence for _, sentences in self._held(self.verdicts) for sentence in sentences]

    def told_failures(self, of: ScenarioVerdict | None = None) -> list[str]:
        """Return the same for people: of each condition the worst groups, and how many more.

        Of one run if it is given.
        """
        held = self._held(self.verdicts if of is None else [of])
        each_max = max(1, min(FAILURES_EACH_MAX, FAILURES_MAX // max(1, len(held))))
        told = []
        for (verdict, condition), sentences in held[:FAILURES_MAX]:
            told += sentences[:each_max]
            if (more := len(sentences) - each_max) > 0:
                groups = "1 more group" if more == 1 else f"{more:,} more groups"
                told.append(f"{_name(verdict)}: {groups}: fails on {condition.text}.")
        if (more := len(held) - FAILURES_MAX) > 0:
            told.append(f"{more:,} more conditions to fail on hold.")
        return told

    def _held(
        self, verdicts: Sequence[ScenarioVerdict]
    ) -> list[tuple[tuple[ScenarioVerdict, FailOn], list[str]]]:
        """Return the conditions that hold for a run, with a sentence for the run or each group."""
        found = []
        for verdict in verdicts:
            for condition in self.fail_on:
                sentences = [
                    *([f"{_name(verdict)}: {said}"] if (said := condition.met_by(verdict)) else []),
                    *(
                        f"{_name(verdict)}, {group}: {sentence}"
                        for group, sentence in condition.met(verdict.groups)
                    ),
                ]
                if sentences:
                    found.append(((verdict, condition), sentences))
        return found

    def best(self) -> list[str]:
        """Return for each place with several variants which of them costs least, and why."""
        return best_of_each_place(self.verdicts)

    def document(self) -> dict[str, Any]:
        """Return the comparison for JSON; of one run, its verdict."""
        documents = [each.document() for each in self.verdicts]
        told = {"clean": self.is_clean, "fail_on": self.failures(), "lacks": [*self.lacks]}
        if len(documents) == 1:
            return {**documents[0], **told}
        scenario = self.verdicts[0].scenario
        return {"scenario": scenario, **told, "best": self.best(), "runs": documents}

    def text(self) -> str:
        """Return the comparison for a terminal."""
        rows = self._rows()
        words = {"run", "variant", "group", "worst copy", "protocol", "by cause"}
        right = {number for number, head in enumerate(rows[0]) if head not in words}
        lines = [aligned(rows, right=right), *self._remarks()]
        lines.append("clean" if self.is_clean else "NOT CLEAN")
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return the comparison as Markdown, for a pull request."""
        first = self.verdicts[0]
        word = "clean" if self.is_clean else "**NOT CLEAN**"
        head, *rows = self._rows()
        lines = [f"### Rehearsal of {first.scenario}: {word}", "", _markdown_row(head)]
        lines.append(_markdown_row(["---"] * len(head)))
        lines += map(_markdown_row, rows)
        if remarks := [*self._faults(), *self._remarks()]:
            lines += ["", *(f"- {remark.strip()}" for remark in remarks)]
        return fitting(lines)

    def _rows(self) -> list[list[str]]:
        """Return the table: a row for each application of each run, as far as there is room.

        What all runs have in common is left out.
        """
        several = len(self.verdicts) > 1
        has_copies = any(each.group.copies > 1 for run in self.verdicts for each in run.groups)
        which = ["run", "variant"] if several else []
        copies = ["copies", "worst copy"] if has_copies else []
        rows = [[*which, "group", *copies, "members", "protocol", *COLUMNS]]
        shown = self._shown()
        for verdict in self.verdicts:
            at = [verdict.how, verdict.variant] if several else []
            paid = applications(verdict.groups)
            for each in paid:
                if each.name in shown:
                    worst = [str(len(each.copies)), each.worst_copy or "-"] if has_copies else []
                    rows.append([*at, each.name, *worst, *_cells(each.costs, each.kind)])
            others = [each for one in paid if one.name not in shown for each in one.copies]
            if others:
                empty = ["-"] * len(copies)
                costs = together(each.costs for each in others)
                rows.append([*at, f"{len(others)} other groups", *empty, *_cells(costs, "-")])
        return rows

    def _shown(self) -> set[str]:
        """Return the names of the applications with rows: of too many those that cost most."""
        most = max(ROWS_EACH_LEAST, ROWS_MAX // len(self.verdicts))
        paid: dict[str, PaidRank] = {}
        for verdict in self.verdicts:
            for each in applications(verdict.groups):
                paid[each.name] = max(paid.get(each.name, NOTHING_PAID), paid_rank(each.worst))
        if len(paid) <= most:
            return {*paid}
        return {*sorted(paid, key=lambda name: paid[name], reverse=True)[: most - 1]}

    def _faults(self) -> list[str]:
        """Return a sentence for each run with faults; a terminal was told when they happened."""
        several = len(self.verdicts) > 1
        return [
            f"{_name(verdict)}: {said}" if several else said
            for verdict in self.verdicts
            if (said := faults_said(verdict.faults))
        ]

    def _remarks(self) -> list[str]:
        several = len(self.verdicts) > 1
        lines = []
        for verdict in self.verdicts:
            at = f"{_name(verdict)}: " if several else ""
            lines += [f"{at}{sentence}" for sentence in verdict.remarks(COMPLAINTS_MAX)]
        return [*lines, *self.told_failures(), *self.best(), *self.lacks]


def _cells(costs: GroupCosts, kind: str) -> list[str]:
    return [str(costs.members), kind, *(show(costs) for show in COLUMNS.values())]


def _name(verdict: ScenarioVerdict) -> str:
    return f"{verdict.how}, {verdict.variant}"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
