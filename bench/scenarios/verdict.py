"""The verdict on a run of a scenario: a table for people, a document for tools."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.scenarios.record import CHECKS, GroupCosts, costs
from failover.columns import aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.scenarios.record import ScenarioRecord
    from bench.scenarios.scenario import Group, Scenario

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

    @property
    def is_clean(self) -> bool:
        """Whether nothing broke a rule, and no group paid more than expected."""
        return not self.found and not any(each.exceeded for each in self.groups)

    def document(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return {
            "scenario": self.scenario,
            "run": self.how,
            "clean": self.is_clean,
            "late_steps": self.late,
            "groups": {
                each.group.name: {**asdict(each.costs), "exceeded": list(each.exceeded)}
                for each in self.groups
            },
            "violations": {name: list(sentences) for name, sentences in self.found.items()},
        }

    def text(self) -> str:
        """Return the table."""
        rows = [["group", "members", "protocol", *COLUMNS]]
        for each in self.groups:
            kind = f"{each.group.protocol}, {'static' if each.group.static else 'dynamic'}"
            values = [show(each.costs) for show in COLUMNS.values()]
            rows.append([each.group.name, str(each.costs.members), kind, *values])
        lines = [aligned(rows, right={1, *range(3, 3 + len(COLUMNS))})]
        if self.late:
            lines.append(
                f"{self.late} steps of the plan were late: this machine is too slow for it."
            )
        for each in self.groups:
            lines += [f"{each.group.name}: {sentence}" for sentence in each.exceeded]
        for name, sentences in self.found.items():
            lines.append(f"{name}: {len(sentences)}")
            lines += [f"  {sentence}" for sentence in sentences[:COMPLAINTS_MAX]]
        lines.append("clean" if self.is_clean else "NOT CLEAN")
        return "\n".join(lines)


COLUMNS: Final[Mapping[str, Callable[[GroupCosts], str]]] = {
    "generation": lambda each: str(each.generation),
    "rebalances": lambda each: str(each.rebalances),
    "unavailable member-s": lambda each: f"{each.unavailable_member_ms / 1000:.1f}",
    "partitions moved": lambda each: str(each.moved),
    "longest unowned s": lambda each: f"{each.unowned_ms / 1000:.1f}",
    "failed members": lambda each: str(each.failed),
}
"""The columns of the table after those that say which group it is."""


def judge(scenario: Scenario, record: ScenarioRecord, how: str) -> ScenarioVerdict:
    """Judge a run; ``how`` is ``real`` or ``simulated``."""
    found = {name: check(record) for name, check in CHECKS.items()}
    return ScenarioVerdict(
        scenario=scenario.name,
        how=how,
        groups=tuple(_judged(group, costs(record, group.name)) for group in scenario.groups),
        found={name: sentences for name, sentences in found.items() if sentences},
        late=record.late,
    )


LIMITS: Final[Mapping[str, tuple[str, Callable[[GroupCosts], float]]]] = {
    "rebalances_max": ("rebalances", lambda each: each.rebalances),
    "unavailable_member_seconds_max": (
        "unavailable member-seconds", lambda each: each.unavailable_member_ms / 1000,
    ),
    "unowned_seconds_max": (
        "seconds without an owner of a partition", lambda each: each.unowned_ms / 1000,
    ),
}  # fmt: skip
"""What each setting of ``expect`` limits."""


def _judged(group: Group, paid: GroupCosts) -> GroupVerdict:
    exceeded = []
    for name, (words, value) in LIMITS.items():
        limit = getattr(group.expect, name)
        if limit is not None and value(paid) > limit:
            exceeded.append(f"{value(paid):g} {words}, and at most {limit:g} were expected.")
    return GroupVerdict(group=group, costs=paid, exceeded=tuple(exceeded))
