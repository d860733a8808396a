"""Limits of figures that documentation promises: whether the medians of a benchmark keep them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report.rounds import BenchRow


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureLimit:
    """What the median of a figure may be, in each row that has it: at least, or at most."""

    figure: str
    least: float = -math.inf
    most: float = math.inf

    def checked(self, rows: Sequence[BenchRow]) -> CheckedLimit:
        """Find the rows that do not keep it; one that could not be measured does not."""
        medians = {row.case: row.median() for row in rows}
        return CheckedLimit(
            self,
            {
                case: median[self.figure]
                for case, median in medians.items()
                if self.figure in median and not self.least <= median[self.figure] <= self.most
            },
        )


class CheckedLimit(NamedTuple):
    """A limit, and the medians that are beyond it, by case."""

    limit: FigureLimit
    beyond: dict[str, float]

    def line(self) -> str:
        """Return whether it was kept, in one line."""
        bounds = " and".join(f" {word} {value:g}" for word, value in self._bounds())
        limit = f"limit: {self.limit.figure} of{bounds}"
        if not self.beyond:
            return f"{limit}: kept"
        found = "; ".join(f"{value:.3g} ({case})" for case, value in self.beyond.items())
        return f"{limit}: NOT KEPT: {found}"

    def document(self) -> dict[str, Any]:
        """Return it for tools."""
        return {
            "figure": self.limit.figure,
            **{word.split()[1]: value for word, value in self._bounds()},
            "is_kept": not self.beyond,
            "beyond": self.beyond,
        }

    def _bounds(self) -> list[tuple[str, float]]:
        both = (("at least", self.limit.least), ("at most", self.limit.most))
        return [(word, value) for word, value in both if math.isfinite(value)]
