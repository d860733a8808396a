"""Limits of figures that documentation promises: whether the medians of a benchmark keep them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report.rounds import BenchRow


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureLimit:
    """The least that the median of a figure may be, in each row that has it."""

    figure: str
    least: float

    def checked(self, rows: Sequence[BenchRow]) -> CheckedLimit:
        """Find the rows that do not keep it; one that could not be measured does not."""
        medians = {row.case: row.median() for row in rows}
        return CheckedLimit(
            self,
            {
                case: median[self.figure]
                for case, median in medians.items()
                if self.figure in median and not median[self.figure] >= self.least
            },
        )


class CheckedLimit(NamedTuple):
    """A limit, and the medians that are beyond it, by case."""

    limit: FigureLimit
    beyond: dict[str, float]

    def line(self) -> str:
        """Return whether it was kept, in one line."""
        least = f"limit: {self.limit.figure} of at least {self.limit.least:g}"
        if not self.beyond:
            return f"{least}: kept"
        found = "; ".join(f"{value:.3g} ({case})" for case, value in self.beyond.items())
        return f"{least}: NOT KEPT: {found}"

    def document(self) -> dict[str, Any]:
        """Return it for tools."""
        return {
            "figure": self.limit.figure,
            "least": self.limit.least,
            "is_kept": not self.beyond,
            "beyond": self.beyond,
        }
