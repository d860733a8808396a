"""The verdict on a run of a scenario: rows of a table for people, a document for tools."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from bench.report.sentences import first_of
from bench.scenarios.record import CHECKS, GroupCosts, costs, ended_early, faults_in
from bench.scenarios.scenario import BASE
from bench.scenarios.verdicts.applications import GroupVerdict, applications
from bench.scenarios.verdicts.measures import MEASURES, figure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.scenarios.record import ScenarioRecord
    from bench.scenarios.scenario import Group, Scenario
    from bench.scenarios.verdicts.measures import Measure

STALLED_MS: Final = 500
"""A stall of the members' process from here on is told."""

LATE_PERCENT: Final = 1.0
"""With so many late requests, or with a late step, the machine was too slow for the plan."""


class Bound(Enum):
    """Whether a setting of ``expect`` says how little a group may pay, or how much."""

    MIN = "least"
    MAX = "most"

    def keeps(self, value: float, limit: float) -> bool:
        """Whether a value is within a limit of this kind."""
        return value >= limit if self is Bound.MIN else value <= limit


COMPLAINTS_MAX: Final = 3
"""At most this many sentences of each check are shown."""

NOTES_MAX: Final = 12
"""At most this many sentences say what was left out, or how a run ended."""

EXCEEDED_MAX: Final = 30
"""At most this many sentences say which limits applications do not keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryResult:
    """What the checks of :mod:`bench.histories.checks` found in the rows that a run left.

    ``counts`` has every check; ``broken`` and ``suspect`` have sentences, not more than some of
    each check that found anything.
    """

    rows: int
    counts: Mapping[str, int]
    broken: Mapping[str, Sequence[str]]
    suspect: Mapping[str, Sequence[str]]

    @property
    def sentence(self) -> str:
        """Say that the history was checked, and what is no more than suspect."""
        said = f"{len(self.counts)} checks of its history ({self.rows:,} rows)"
        if self.broken:
            found = ", ".join(f"{name} ({self.counts[name]})" for name in self.broken)
            said = f"{said} found broken promises: {found}."
        else:
            said = f"{said} found no broken promise."
        for name, sentences in self.suspect.items():
            first = f" {sentences[0].rstrip('.')}." if sentences else ""
            said = f"{said} Suspect is {name} ({self.counts[name]}):{first}"
        return said

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "rows": self.rows,
            "checks": dict(self.counts),
            "suspect": {name: list(sentences) for name, sentences in self.suspect.items()},
        }


FORMING_NAMED: Final = 3
"""So many groups that were still forming are told by name."""


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
    held_requests: int = 0
    stalled_ms: int = 0
    missing: int = 0
    """How many members were lost with the process that drove them: nothing is known of them."""
    variant: str = BASE
    notes: tuple[str, ...] = ()
    """What of the scenario was left out, and why."""
    faults: tuple[tuple[int, str], ...] = ()
    """What happened to the cluster, and how many milliseconds after the begin."""
    history: HistoryResult | None = None
    """What was found in the run's history; None: it was not kept."""

    @property
    def violations(self) -> dict[str, tuple[int, Sequence[str]]]:
        """How often each check found something, and the sentences that are there of it."""
        found = {name: (len(each), each) for name, each in self.found.items()}
        if self.history is not None:
            for name, each in self.history.broken.items():
                found[f"{name}, in the history"] = self.history.counts[name], each
        return found

    @property
    def remarked(self) -> list[str]:
        """Return what figures do not say, but for limits and rules: a sentence each.

        That is what was left out, how far the machine kept up, and how the history was checked.
        """
        history = "" if self.history is None else self.history.sentence
        told = (self.forming, self.lateness, self.stalled, history)
        return [*first_of(self.notes, NOTES_MAX, "notes"), *filter(None, told)]

    @property
    def forming(self) -> str:
        """Say which groups were still forming at the first change; "" if none was."""
        groups = [each for each in self.groups if each.costs.unowned_before]
        if not groups:
            return ""
        unowned = sum(each.costs.unowned_before for each in groups)
        names = ", ".join(each.group.name for each in groups[:FORMING_NAMED])
        more = len(groups) - FORMING_NAMED
        partitions = "1 partition" if unowned == 1 else f"{unowned} partitions"
        return (
            f"{partitions} had no owner yet when the first change came, of"
            f" {names}{f' and {more} more groups' if more > 0 else ''}: the figures contain what"
            " was left of a first assignment."
        )

    @property
    def stalled(self) -> str:
        """Say for how long the members' process stood still; "" if not for long."""
        if self.stalled_ms < STALLED_MS:
            return ""
        return (
            f"The members' own process stood still for up to {self.stalled_ms / 1000:.1f} s: that"
            " much of the costs may be this machine's."
        )

    @property
    def is_clean(self) -> bool:
        """Whether nothing broke a rule, and no group paid more than expected."""
        return not self.violations and not any(each.exceeded for each in self.groups)

    @property
    def late_requests_percent(self) -> float:
        """How many of a hundred requests were sent late; in virtual time none is."""
        return 100 * self.late_requests / max(self.requests, 1)

    @property
    def held_requests_percent(self) -> float:
        """How many of a hundred requests waited for the answer to another one of their member."""
        return 100 * self.held_requests / max(self.requests, 1)

    @property
    def lateness(self) -> str:
        """Say how much was late; "" if nothing can be."""
        if not (self.late or self.requests):
            return ""
        said = (
            f"{self.late} steps of the plan and {self.late_requests} of {self.requests} requests"
            f" ({self.late_requests_percent:.2f}%) were late"
        )
        is_slow = self.late or self.late_requests_percent >= LATE_PERCENT
        said = f"{said}: this machine is too slow for it." if is_slow else f"{said}."
        if not self.held_requests:
            return said
        return (
            f"{said} {self.held_requests} more ({self.held_requests_percent:.2f}%) were due while"
            " another request of their member had no answer, and waited for it."
        )

    def document(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        found = {name: list(sentences) for name, (_, sentences) in self.violations.items()}
        return {
            "scenario": self.scenario,
            "run": self.how,
            "variant": self.variant,
            "clean": self.is_clean,
            "late_steps": self.late,
            "requests": self.requests,
            "late_requests": self.late_requests,
            "late_requests_percent": round(self.late_requests_percent, 4),
            "held_requests": self.held_requests,
            "held_requests_percent": round(self.held_requests_percent, 4),
            "stalled_ms": self.stalled_ms,
            "missing_members": self.missing,
            "notes": list(self.notes),
            "faults": [{"at_ms": at_ms, "text": text} for at_ms, text in self.faults],
            "groups": {
                each.group.name: {**asdict(each.costs), "exceeded": list(each.exceeded)}
                for each in self.groups
            },
            "violations": found,
            "history": None if self.history is None else self.history.document(),
        }

    def remarks(self, complaints_max: int) -> list[str]:
        """Return what a table does not say: a sentence each; at most so many of each check."""
        lines = self.remarked
        exceeded = [each for one in applications(self.groups) for each in one.exceeded()]
        lines += first_of(exceeded, EXCEEDED_MAX, "limits")
        for name, (count, sentences) in self.violations.items():
            lines.append(f"{name}: {count}")
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
    "revoked from survivors": lambda each: str(each.revoked),
    "most partitions": lambda each: str(each.most),
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
        held_requests=record.held_requests,
        stalled_ms=record.stalled_ms,
        missing=record.missing,
        variant=variant,
        notes=(*notes, *ended_early(record)),
        faults=faults_in(record, {group.name for group in scenario.groups}),
    )


LIMITS: Final[Mapping[str, tuple[Measure, Bound]]] = {
    f"{name}_{bound.name.lower()}": (measure, bound)
    for name, measure in MEASURES.items()
    for bound in Bound
}
"""What each setting of ``expect`` limits."""


def _judged(group: Group, paid: GroupCosts) -> GroupVerdict:
    exceeded = []
    for name, (measure, bound) in LIMITS.items():
        limit, value = getattr(group.expect, name), measure.value(paid)
        if limit is not None and not bound.keeps(value, limit):
            expected = f"at {bound.value} {figure(limit)} were expected"
            exceeded.append(f"{measure.said(value)}, and {expected}.")
    return GroupVerdict(group=group, costs=paid, exceeded=tuple(exceeded))
