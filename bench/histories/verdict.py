"""The verdict on a run: what its checks found, what it cost, and why its groups rebalanced.

Spark computes it; only findings, at most :data:`EXAMPLES_MAX` of each check, and sums come here.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.checks import CHECKS, Severity
from bench.histories.costs import COSTS, by_cause
from bench.histories.store import HistoryError
from failover.columns import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from bench.histories.prepared import PreparedHistory
    from bench.histories.store import RunFacts

EXAMPLES_MAX: Final = 20
SHOWN_MAX: Final = 3
"""At most this many examples of each check are in the table; the document has more."""

FINDING: Final = ("group_id", "subject", "time_ms", "text")
"""The columns of what a check finds."""

LIMIT: Final = re.compile(r"([a-z-]+)\s*>\s*(\d+)")


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One violation: where, when, and a sentence."""

    group_id: str
    subject: str
    time_ms: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """What one check found: how many violations, and the first of them."""

    check: str
    count: int
    examples: tuple[CheckFinding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotal:
    """One figure of all groups, and of the group that paid most; None: no group paid anything."""

    cost: str
    value: int = 0
    worst: int = 0
    worst_group: str | None = None


@dataclass(frozen=True, slots=True)
class CauseTotal:
    """The rebalances of one cause."""

    cause: str
    rebalances: int
    p50_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class CostLimit:
    """The most that a figure may be."""

    cost: str
    most: int

    @classmethod
    def parse(cls, text: str) -> CostLimit:
        """Return the limit of a text such as ``rebalances>0``; raises HistoryError."""
        found = LIMIT.fullmatch(text.strip())
        if found is None or found[1] not in COSTS:
            raise HistoryError(
                f"--fail-on {text!r} is no limit: write COST>NUMBER, where COST is one of"
                f" {', '.join(COSTS)}."
            )
        return cls(found[1], int(found[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryVerdict:
    """The verdict on one run; ``exceeded`` has a sentence for each limit that was exceeded.

    That members are missing is one of these: none may be.
    """

    facts: RunFacts
    outcomes: tuple[CheckOutcome, ...]
    costs: tuple[CostTotal, ...]
    causes: tuple[CauseTotal, ...]
    exceeded: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether no promise was broken and no limit exceeded."""
        broken = (CHECKS[each.check].severity is Severity.BROKEN for each in self._found)
        return not any(broken) and not self.exceeded

    @property
    def _found(self) -> Sequence[CheckOutcome]:
        return [each for each in self.outcomes if each.count]

    def cost(self, name: str) -> int:
        """Return a figure of all groups."""
        return next(each.value for each in self.costs if each.cost == name)

    def count(self, name: str) -> int:
        """Return how many violations a check found."""
        return next(each.count for each in self.outcomes if each.check == name)

    def document(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return {
            "run": self.facts.run_id,
            "what": self.facts.what,
            "rows": sum(self.facts.rows.values()),
            "clean": self.is_clean,
            "checks": {
                each.check: {
                    "severity": str(CHECKS[each.check].severity),
                    "says": CHECKS[each.check].sentence,
                    "count": each.count,
                    "examples": [asdict(example) for example in each.examples],
                }
                for each in self.outcomes
            },
            "costs": {
                each.cost: {
                    "says": COSTS[each.cost].sentence,
                    "value": each.value,
                    "worst": each.worst,
                    "worst_group": each.worst_group,
                }
                for each in self.costs
            },
            "causes": [asdict(each) for each in self.causes],
            "exceeded": list(self.exceeded),
        }

    def text(self) -> str:
        """Return the verdict as tables."""
        rows = sum(self.facts.rows.values())
        checks = [["check", "found", ""]]
        for each in self.outcomes:
            judged = str(CHECKS[each.check].severity).upper() if each.count else "ok"
            checks.append([each.check, str(each.count), judged])
        costs = [["cost", "value", "most of one group", "group"]]
        for total in self.costs:
            worst = str(total.worst), total.worst_group or "-"
            costs.append([total.cost, str(total.value), *worst])
        causes = [["rebalances because of", "count", "p50 ms", "max ms"]]
        for by in self.causes:
            causes.append([by.cause, str(by.rebalances), str(by.p50_ms), str(by.max_ms)])
        lines = [
            f"{self.facts.run_id}: {self.facts.what}; {rows:,} rows",
            aligned(checks, right={1}),
            "",
            aligned(costs, right={1, 2}),
        ]
        if self.causes:
            lines += ["", aligned(causes, right={1, 2, 3})]
        for each in self._found:
            lines.append(f"{each.check}: {CHECKS[each.check].sentence}")
            lines += [f"  {told.group_id}: {told.text}" for told in each.examples[:SHOWN_MAX]]
        lines += self.exceeded
        lines.append(f"verdict: {'clean' if self.is_clean else 'NOT CLEAN'}")
        return "\n".join(lines)


def judge_history(history: PreparedHistory, limits: Sequence[CostLimit] = ()) -> HistoryVerdict:
    """Run all checks over the rows of one run, and compute its costs."""
    outcomes = found_in(history)
    costs = _totals(history)
    causes = tuple(CauseTotal(**row.asDict()) for row in by_cause(history).collect())
    values = {each.cost: each.value for each in costs}
    return HistoryVerdict(
        facts=history.facts,
        outcomes=outcomes,
        costs=costs,
        causes=causes,
        exceeded=(
            *missing_members(history.facts),
            *(
                f"{each.cost} is {values[each.cost]}, and at most {each.most} is allowed."
                for each in limits
                if values[each.cost] > each.most
            ),
        ),
    )


def missing_members(facts: RunFacts) -> tuple[str, ...]:
    """Say that a history is not whole: what is not there cannot be judged."""
    if not facts.missing_members:
        return ()
    return (
        f"{facts.missing_members} members are missing: they were lost with the process that drove"
        " them, and at most 0 are allowed.",
    )


def found_in(history: PreparedHistory) -> tuple[CheckOutcome, ...]:
    """Run all checks over the rows of one run."""
    return _outcomes(violations(history))


def violations(history: PreparedHistory) -> DataFrame:
    """Return what all checks find: the ``check``, where, when, and a sentence."""
    each = (
        check.find(history).select(F.lit(name).alias("check"), *FINDING)
        for name, check in CHECKS.items()
    )
    return reduce(lambda one, other: one.unionByName(other), each)


def costs_by_group(history: PreparedHistory) -> DataFrame:
    """Return every figure of every group that has one: ``cost``, ``group_id``, ``value``."""
    each = (
        cost.compute(history).select(F.lit(name).alias("cost"), "group_id", "value")
        for name, cost in COSTS.items()
    )
    return reduce(lambda one, other: one.unionByName(other), each)


def _outcomes(found: DataFrame) -> tuple[CheckOutcome, ...]:
    """Count what was found, and fetch examples of each check: first one of each group."""
    kept = found.localCheckpoint()
    of_group = Window.partitionBy("check", "group_id").orderBy("time_ms", "subject", "text")
    of_check = Window.partitionBy("check").orderBy("turn", "group_id")
    first = (
        kept.withColumn("turn", F.row_number().over(of_group))
        .withColumn("rank", F.row_number().over(of_check))
        .where(F.col("rank") <= EXAMPLES_MAX)
    )
    counts = {row["check"]: row["count"] for row in kept.groupBy("check").count().collect()}
    examples: dict[str, list[CheckFinding]] = {name: [] for name in CHECKS}
    for row in first.orderBy("check", "rank").collect():
        examples[row["check"]].append(CheckFinding(*(row[name] for name in FINDING)))
    return tuple(
        CheckOutcome(check=name, count=counts.get(name, 0), examples=tuple(examples[name]))
        for name in CHECKS
    )


def _totals(history: PreparedHistory) -> tuple[CostTotal, ...]:
    rows = (
        costs_by_group(history)
        .groupBy("cost")
        .agg(
            F.sum("value").alias("sum"),
            F.max("value").alias("worst"),
            F.max_by("group_id", "value").alias("worst_group"),
        )
        .collect()
    )
    found = {row["cost"]: row for row in rows if row["worst"]}
    return tuple(
        CostTotal(cost=name)
        if name not in found
        else CostTotal(
            cost=name,
            value=found[name]["sum" if cost.total == "sum" else "worst"],
            worst=found[name]["worst"],
            worst_group=found[name]["worst_group"],
        )
        for name, cost in COSTS.items()
    )
