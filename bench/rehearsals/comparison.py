"""The runs of a rehearsal side by side: one table, who costs least, and what makes it fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.scenarios.cheapest import best_of_each_place
from bench.scenarios.sentences import faults_said
from bench.scenarios.verdict import COLUMNS, COMPLAINTS_MAX
from failover.columns import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scenarios.conditions import FailOn
    from bench.scenarios.verdict import ScenarioVerdict


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
        """Return a sentence for each condition to fail on that holds."""
        return [sentence for verdict in self.verdicts for sentence in self.failures_of(verdict)]

    def failures_of(self, verdict: ScenarioVerdict) -> list[str]:
        """Return those that hold for one run."""
        found = [
            f"{_name(verdict)}: {sentence}"
            for condition in self.fail_on
            if (sentence := condition.met_by(verdict))
        ]
        found += [
            f"{_name(verdict)}, {group}: {sentence}"
            for condition in self.fail_on
            for group, sentence in condition.met(verdict.groups)
        ]
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
        first = len(rows[0]) - len(COLUMNS)
        lines = [aligned(rows, right={first - 2, *range(first, len(rows[0]))})]
        lines += self._remarks()
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
        return "\n".join(lines) + "\n"

    def _rows(self) -> list[list[str]]:
        """Return the table: what all runs have in common is left out."""
        several = len(self.verdicts) > 1
        rows = [[*(("run", "variant") if several else ()), *HEAD, *COLUMNS]]
        for verdict in self.verdicts:
            which = [verdict.how, verdict.variant] if several else []
            rows += [[*which, *row] for row in verdict.rows()]
        return rows

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
        return [*lines, *self.failures(), *self.best(), *self.lacks]


HEAD = ("group", "members", "protocol")


def _name(verdict: ScenarioVerdict) -> str:
    return f"{verdict.how}, {verdict.variant}"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
