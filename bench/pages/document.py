"""The document behind a page: what several runs cost, and how it came about.

Times are milliseconds since the run began. Names are as clients chose them: who shows one escapes
it. Everything is bounded; ``notes`` say what was left out or summarised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORM: Final = 1
"""Raised when a tool that reads the document would have to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that a group or a run was charged.

    It is judged if there is a ``limit``, the most that it may be, or a ``least``. ``is_cost``: less
    of it is better, whatever it is beside.
    """

    name: str
    value: float | None
    limit: float | None = None
    least: float | None = None
    is_cost: bool = True

    @property
    def is_judged(self) -> bool:
        """Whether there is a limit to keep."""
        return self.limit is not None or self.least is not None

    @property
    def is_within(self) -> bool:
        """Whether all limits are kept; a value that was never observed keeps none."""
        if self.value is None:
            return not self.is_judged
        return (self.limit is None or self.value <= self.limit) and (
            self.least is None or self.value >= self.least
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """What one group paid; ``kind`` says what its members are."""

    group: str
    kind: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that was done: a behaviour of one group, or (``group`` None) a fault."""

    at_ms: int
    text: str
    group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSpan:
    """A generation (or epoch): from its cause until the last member had its assignment.

    ``moved`` partitions came to another owner. ``is_initial``: it was before the first change.
    """

    generation: int
    began_ms: int
    ended_ms: int
    cause: str
    moved: int
    is_initial: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """What a group was like in each step of time, by name; None: nothing to measure.

    Counts are means over the step, so that their sum is the cost. ``durations_ms`` has, for each
    kind of :data:`bench.pages.trends.DURATIONS`, its percentiles over the members; a duration
    counts in the step in which it ends.
    """

    step_ms: int
    running: Sequence[float]
    unavailable: Sequence[float]
    unowned: Sequence[float]
    errors: Mapping[str, Sequence[int]]
    durations_ms: Mapping[str, Mapping[str, Sequence[int | None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipPicture:
    """Who owned which partition when: ``rows`` of numbers, one row for ``band`` partitions.

    ``partitions`` are (topic, first index, how many), in the order of the rows. A row is, by
    ``form``:

    - ``owners``: (gap, length, owner) again and again: milliseconds since the last owner, and for
      how long ``owners[owner]`` had the partition;
    - ``counts``: (length, owners): for so many milliseconds it had so many owners;
    - ``bands``: (steps, new, unowned, changes): for so many steps of ``step_ms`` so many of a
      thousand of the band's partitions had no owner yet, so many had none any more, and in each
      step so many came to another owner.
    """

    form: str
    partitions: Sequence[tuple[str, int, int]]
    rows: Sequence[Sequence[int]]
    owners: Sequence[str] = ()
    band: int = 1
    step_ms: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStory:
    """How one group fared: what its pictures are drawn from."""

    group: str
    rebalances: Sequence[RebalanceSpan]
    trends: Trends
    ownership: OwnershipPicture


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run: a scenario, a variant of it, or a drill. ``how`` says how it was carried out.

    ``figures`` are of the whole run, ``costs`` of each group; a run may have either or both.
    """

    name: str
    how: str
    is_clean: bool
    verdict: str
    duration_ms: int
    changed_ms: int
    figures: Sequence[Figure] = ()
    costs: Sequence[CostRow] = ()
    found: Mapping[str, Sequence[str]] = field(default_factory=dict)
    marks: Sequence[Mark] = ()
    stories: Sequence[GroupStory] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """One or several runs, side by side, and the verdict in one sentence."""

    title: str
    about: str
    is_clean: bool
    verdict: str
    program: str
    made: str
    runs: Sequence[RunReport]
    form: int = FORM


def as_json(report: ReportDocument) -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(report)
