"""Conditions on which a rehearsal fails (``--fail-on``): of what a group paid, or of a run."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.scenarios.verdicts.measures import MEASURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.scenarios.scenario import Group
    from bench.scenarios.verdicts.applications import GroupVerdict
    from bench.scenarios.verdicts.verdict import ScenarioVerdict


class RunMeasure(NamedTuple):
    """One measure of a whole run: what it counts, in words, and its value."""

    words: str
    value: Callable[[ScenarioVerdict], float]


RUN_MEASURES: Final[Mapping[str, RunMeasure]] = {
    "late_requests_percent": RunMeasure(
        "% of the requests were late", lambda each: each.late_requests_percent
    ),
    "held_requests_percent": RunMeasure(
        "% of the requests waited for another answer", lambda each: each.held_requests_percent
    ),
    "late_steps": RunMeasure("steps of the plan were late", lambda each: each.late),
    "stalled_seconds": RunMeasure(
        "seconds for which the members' process stood still", lambda each: each.stalled_ms / 1000
    ),
}
COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip

_FAIL_ON: Final = re.compile(
    r"(?:(?P<group>[a-zA-Z0-9._-]{1,100})\s*:)?\s*(?P<measure>[a-z_]+)\s*"
    r"(?P<than>>=|<=|>|<)\s*(?P<limit>[0-9]{1,12}(?:\.[0-9]{1,6})?)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class FailOn:
    """A condition on which a rehearsal fails: of one group, of any (None), or of the run."""

    text: str
    group: str | None
    measure: str
    than: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> FailOn:
        """Read ``unavailable_member_seconds>60`` or ``orders:rebalances>0``; raises ValueError."""
        found = _FAIL_ON.fullmatch(text.strip())
        if found is None:
            raise ValueError(
                f"{text!r} is no condition: write [GROUP:]MEASURE>NUMBER, such as"
                " unavailable_member_seconds>60"
            )
        measure = found["measure"]
        if measure in RUN_MEASURES and found["group"] is not None:
            raise ValueError(f"{measure} is of the whole run: omit {found['group']}:")
        if measure not in MEASURES and measure not in RUN_MEASURES:
            known = ", ".join([*MEASURES, *RUN_MEASURES])
            raise ValueError(f"there is no measure {measure}: use {known}")
        limit = float(found["limit"])
        return cls(text.strip(), found["group"], measure, found["than"], limit)

    def means(self, group: Group) -> bool:
        """Whether it is about a group: by its id, or by the name of its application."""
        return self.group in (None, group.name, group.application)

    def met(self, groups: Sequence[GroupVerdict]) -> Iterator[tuple[str, str]]:
        """Yield the name of each group for which the condition holds, and a sentence.

        The worst one comes first. Of an application that the condition names it is the only one.
        """
        if self.measure not in MEASURES:
            return
        measure = MEASURES[self.measure]
        chosen = sorted(
            (each for each in groups if self.means(each.group)),
            key=lambda each: measure.value(each.costs),
            reverse=self.than in (">", ">="),
        )
        if self.group is not None:
            chosen = chosen[:1]
        for each in chosen:
            value = measure.value(each.costs)
            if said := self._judged(value, measure.said(value)):
                yield each.group.name, said

    def met_by(self, verdict: ScenarioVerdict) -> str:
        """Return a sentence if the condition holds for a run; empty: it does not."""
        if self.measure not in RUN_MEASURES:
            return ""
        measure = RUN_MEASURES[self.measure]
        value = measure.value(verdict)
        return self._judged(value, f"{value:g} {measure.words}")

    def _judged(self, value: float, said: str) -> str:
        return f"{said}: fails on {self.text}." if COMPARISONS[self.than](value, self.limit) else ""
