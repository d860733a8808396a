"""The verdict on a run of a scenario: rows of a table for people, a document for tools."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.scenarios.measures import MEASURES
from bench.scenarios.record import CHECKS, GroupCosts, costs
from bench.scenarios.scenario import BASE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.scenarios.record import ScenarioRecord
    from bench.scenarios.scenario import Group, Scenario

STALLED_MS: Final = 500
"""A stall of the members' process from here on is told."""
COMPLAINTS_MAX: Final = 3
"""At most this many sentences of each check are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """What the scenario cost a group, and which limits that exceeds."""

    group: Group
    costs: GroupCosts
    exceeded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioVerdict:
    """The verdict on one run. ``found`` are the sentences of each check that found anything."""

    scenario: str
    how: str
    groups: tuple[GroupVerdict, ...]
    found: Mapping[str, Sequence[str]]
    late: int = 0
    requests: int = 0
    late_requests: int = 0
    stalled_ms: int = 0
    variant: str = BASE
    notes: tuple[str, ...] = ()
    """What of the scenario was left out, and why."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing broke a rule, and no group paid more than expected."""
        return not self.found and not any(each.exceeded for each in self.groups)

    @property
    def lateness(self) -> str:
        """Say what was late; "" if nothing was."""
        if not (self.late or self.late_requests):
            return ""
        share = self.late_requests / max(self.requests, 1)
        return (
            f"{self.late} steps of the plan and {self.late_requests} of {self.requests} requests"
            f" ({share:.2%}) were late: this machine is too slow for it."
        )

    def document(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return {
            "scenario": self.scenario,
            "run": self.how,
            "variant": self.variant,
            "clean": self.is_clean,
            "late_steps": self.late,
            "requests": self.requests,
            "late_requests": self.late_requests,
            "stalled_ms": self.stalled_ms,
            "notes": list(self.notes),
            "groups": {
                each.group.name: {**asdict(each.costs), "exceeded": list(each.exceeded)}
                for each in self.groups
            },
            "violations": {name: list(sentences) for name, sentences in self.found.items()},
        }

    def rows(self) -> list[list[str]]:
        """Return the row of each group in a table."""
        rows = []
        for each in self.groups:
            kind = f"{each.group.protocol}, {'static' if each.group.static else 'dynamic'}"
            values = [show(each.costs) for show in COLUMNS.values()]
            rows.append([each.group.name, str(each.costs.members), kind, *values])
        return rows

    def remarks(self, complaints_max: int) -> list[str]:
        """Return what a table does not say: a sentence each; at most so many of each check."""
        lines = list(self.notes)
        if self.lateness:
            lines.append(self.lateness)
        if self.stalled_ms >= STALLED_MS:
            lines.append(
                f"The members' own process stood still for up to {self.stalled_ms / 1000:.1f} s:"
                " that much of the costs may be this machine's."
            )
        for each in self.groups:
            lines += [f"{each.group.name}: {sentence}" for sentence in each.exceeded]
        for name, sentences in self.found.items():
            lines.append(f"{name}: {len(sentences)}")
            lines += [f"  {sentence}" for sentence in sentences[:complaints_max]]
        return lines


COLUMNS: Final[Mapping[str, Callable[[GroupCosts], str]]] = {
    "generation": lambda each: str(each.generation),
    "rebalances": lambda each: str(each.rebalances),
    "by cause": lambda each: ", ".join(f"{n} {cause}" for cause, n in each.causes.items()) or "-",
    "unavailable member-s": lambda each: f"{each.unavailable_member_ms / 1000:.1f}",
    "partitions moved": lambda each: str(each.moved),
    "longest unowned s": lambda each: f"{each.unowned_ms / 1000:.1f}",
    "failed members": lambda each: str(each.failed),
}
"""The columns of the table after those that say which group it is."""


def judge(
    scenario: Scenario,
    record: ScenarioRecord,
    how: str,
    variant: str = BASE,
    notes: tuple[str, ...] = (),
) -> ScenarioVerdict:
    """Judge a run; ``how`` is where it ran: ``real``, ``simulated``, ``kafka`` or addresses."""
    found = {name: check(record) for name, check in CHECKS.items()}
    return ScenarioVerdict(
        scenario=scenario.name,
        how=how,
        groups=tuple(_judged(group, costs(record, group.name)) for group in scenario.groups),
        found={name: sentences for name, sentences in found.items() if sentences},
        late=record.late,
        requests=record.requests,
        late_requests=record.late_requests,
        stalled_ms=record.stalled_ms,
        variant=variant,
        notes=notes,
    )


LIMITS: Final = {
    f"{name}_max": MEASURES[name]
    for name in ("rebalances", "unavailable_member_seconds", "unowned_seconds", "failed_members")
}
"""What each setting of ``expect`` limits."""


def _judged(group: Group, paid: GroupCosts) -> GroupVerdict:
    exceeded = []
    for name, measure in LIMITS.items():
        limit, value = getattr(group.expect, name), measure.value(paid)
        if limit is not None and value > limit:
            exceeded.append(f"{value:g} {measure.words}, and at most {limit:g} were expected.")
    return GroupVerdict(group=group, costs=paid, exceeded=tuple(exceeded))
