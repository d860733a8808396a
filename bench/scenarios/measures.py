"""What can be limited of the costs of a group: a row each, for ``expect`` and for ``--fail-on``."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.scenarios.record import GroupCosts


class Measure(NamedTuple):
    """One measure: what it counts, in words, and its value."""

    words: str
    value: Callable[[GroupCosts], float]


MEASURES: Final[Mapping[str, Measure]] = {
    "rebalances": Measure("rebalances", lambda each: each.rebalances),
    "unavailable_member_seconds": Measure(
        "unavailable member-seconds", lambda each: each.unavailable_member_ms / 1000
    ),
    "unowned_seconds": Measure(
        "seconds without an owner of a partition", lambda each: each.unowned_ms / 1000
    ),
    "partitions_moved": Measure("partitions moved", lambda each: each.moved),
    "failed_members": Measure("failed members", lambda each: each.failed),
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
    """A condition on which a rehearsal fails: of one group, or of any (None)."""

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
        if found["measure"] not in MEASURES:
            raise ValueError(f"there is no measure {found['measure']}: use {', '.join(MEASURES)}")
        limit = float(found["limit"])
        return cls(text.strip(), found["group"], found["measure"], found["than"], limit)

    def met(self, group: str, paid: GroupCosts) -> str:
        """Return a sentence if the condition holds for a group; empty: it does not."""
        if self.group not in (None, group):
            return ""
        measure = MEASURES[self.measure]
        value = measure.value(paid)
        if not COMPARISONS[self.than](value, self.limit):
            return ""
        return f"{value:g} {measure.words}: fails on {self.text}."
