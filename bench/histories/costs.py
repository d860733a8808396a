"""What a run cost its groups: a row for each figure, and the rebalances by cause.

Costs count from the first change of the run to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories import moves
from bench.histories.episodes import marks, rebalances
from bench.histories.prepared import LIFE, SHARED, asked_ms, is_kind
from bench.histories.schema import ENDED, FINAL, STARTED
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

    from bench.histories.prepared import PreparedHistory

STOPS: Final = (STARTED, Kind.REBALANCING, Kind.LOST, Kind.JOINED)
"""After these a member that owns nothing processes nothing until its next assignment."""
ENDS: Final = (ENDED, Kind.LEFT, Kind.FAILED, FINAL)


class HistoryCost(NamedTuple):
    """One row: what the figure says, how groups add up (``sum`` or ``max``), and its function.

    The function returns the figure, ``value``, of each group that has one; of others it is 0.
    """

    sentence: str
    total: str
    compute: Callable[[PreparedHistory], DataFrame]


def _value(rows: DataFrame, value: Column) -> DataFrame:
    return rows.groupBy("group_id").agg(value.cast("bigint").alias("value"))


def _members(history: PreparedHistory) -> DataFrame:
    return _value(history.lives, F.count_if("is_there"))


def _failed(history: PreparedHistory) -> DataFrame:
    failed = history.milestones.where(is_kind(Kind.FAILED)).select(*LIFE).distinct()
    return _value(failed, F.count("*"))


def _expelled(history: PreparedHistory) -> DataFrame:
    lost = history.milestones.where(is_kind(Kind.LOST) & F.col("sign_ms").isNotNull())
    return _value(lost.where(F.col("time_ms") >= history.facts.changed_ms), F.count("*"))


def _rebalances(history: PreparedHistory) -> DataFrame:
    return _value(rebalances(history), F.count("*"))


def _slowest(history: PreparedHistory) -> DataFrame:
    return _value(rebalances(history), F.max(F.col("stable_ms") - F.col("began_ms")))


def _converged(history: PreparedHistory) -> DataFrame:
    """Count from the last mark: to the end, if a member waits for an assignment then."""
    last = marks(history).groupBy("group_id").agg(F.max("time_ms").alias("marked_ms"))
    settled = rebalances(history).groupBy("group_id").agg(F.max("stable_ms").alias("stable_ms"))
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    waits = F.when(is_kind(*STOPS), F.lit(True)).when(
        is_kind(Kind.ASSIGNED, Kind.LEFT, Kind.FAILED, ENDED), F.lit(False)
    )
    waiting = (
        history.milestones.withColumn("waits", F.last(waits, ignorenulls=True).over(in_order))
        .where(is_kind(FINAL) & F.col("waits"))
        .select("group_id", F.lit(history.facts.ended_ms).alias("waited_ms"))
        .distinct()
    )
    took = F.coalesce("waited_ms", "stable_ms") - F.col("marked_ms")
    paid = (
        last.join(settled, "group_id", "left")
        .join(waiting, "group_id", "left")
        .withColumn("took_ms", F.greatest(took, F.lit(0)))
        .where(F.coalesce("waited_ms", "stable_ms").isNotNull())
    )
    return _value(paid, F.max("took_ms"))


def _survivor_revocations(history: PreparedHistory) -> DataFrame:
    since = F.lit(history.facts.changed_ms)
    survivors = history.lives.where(F.col("is_there") & (F.col("started_ms") < since))
    revoked = history.milestones.where(
        (F.col("time_ms") >= since) & F.col("revoked").isNotNull() & ~is_kind(FINAL)
    )
    return _value(revoked.join(survivors.select(*LIFE), list(LIFE), "left_semi"),
                  F.sum(F.size("revoked")))  # fmt: skip


def _unavailable(history: PreparedHistory) -> DataFrame:
    """Add up the time in which a running member had no assignment."""
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    owns = F.size(F.coalesce(F.last("owned", ignorenulls=True).over(so_far), F.array())) > 0
    state = (
        F.when(is_kind(Kind.ASSIGNED) | is_kind(*ENDS), F.lit(True))
        .when(is_kind(*STOPS) & ~owns, F.lit(False))
    )  # fmt: skip
    at_ms = F.when(is_kind(Kind.JOINED), asked_ms()).otherwise(F.col("time_ms"))
    first, last = F.lit(history.facts.changed_ms), F.lit(history.facts.ended_ms)
    clipped = F.greatest(F.least(at_ms, last), first)
    rows = (
        history.milestones.select(*LIFE, "sequence", state.alias("is_available"),
                                  clipped.alias("at_ms"))
        .where(F.col("is_available").isNotNull())
        .withColumn("was_available", F.lag("is_available").over(in_order))
        .withColumn("since_ms", F.lag("at_ms").over(in_order))
    )  # fmt: skip
    lasted = F.greatest(F.col("at_ms") - F.col("since_ms"), F.lit(0))
    return _value(rows.where(~F.col("was_available")), F.sum(lasted))


def _unowned(history: PreparedHistory) -> DataFrame:
    """Return the longest time in which a partition had no owner."""
    before = (
        Window.partitionBy("group_id", "partition")
        .orderBy("from_ms", "to_ms")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    first, last = F.lit(history.facts.changed_ms), F.lit(history.facts.ended_ms)
    free_ms = F.greatest(F.coalesce(F.max("to_ms").over(before), first), first)
    owned = history.spans.withColumn("gap_ms", F.least("from_ms", last) - free_ms)
    by_partition = owned.groupBy("group_id", "partition").agg(
        F.max("gap_ms").alias("gap_ms"), F.max("to_ms").alias("to_ms")
    )
    all_ = history.groups.select("group_id", F.explode("owned").alias("partition"))
    tail = last - F.greatest(F.coalesce("to_ms", first), first)
    longest = F.greatest(F.coalesce("gap_ms", F.lit(0)), tail, F.lit(0))
    return _value(all_.join(by_partition, ["group_id", "partition"], "left"), F.max(longest))


def _moved(history: PreparedHistory) -> DataFrame:
    """Count how often a partition came to another member than before."""
    in_order = Window.partitionBy("group_id", "partition").orderBy("from_ms", "to_ms")
    moved = (
        history.spans.where(F.col("protocol") != SHARED)
        .withColumn("before", F.lag("member").over(in_order))
        .where(F.col("from_ms") >= history.facts.changed_ms)
        .where(F.col("before") != F.col("member"))
    )
    return _value(moved, F.count("*"))


def _gap(history: PreparedHistory) -> DataFrame:
    return _value(history.lives, F.coalesce(F.max("gap_ms"), F.lit(0)))


def _count(kind: str) -> Callable[[PreparedHistory], DataFrame]:
    def count(history: PreparedHistory) -> DataFrame:
        return _value(history.rows.where(is_kind(kind)), F.count("*"))

    return count


COSTS: Final[Mapping[str, HistoryCost]] = {
    "members": HistoryCost("members in the end", "sum", _members),
    "rebalances": HistoryCost("new generations, or epochs, that were assigned", "sum", _rebalances),
    "slowest-rebalance-ms": HistoryCost(
        "the longest time from the cause of a rebalance to the last assignment", "max", _slowest
    ),
    "converged-ms": HistoryCost(
        "from the last change or fault to the last assignment of a new generation, or to the end if"
        " a member still waits for one",
        "max", _converged,
    ),
    "survivor-revocations": HistoryCost(
        "partitions that were taken from members that live from before the change to the end",
        "sum", _survivor_revocations,
    ),
    "moved": HistoryCost("how often a partition came to another member", "sum", _moved),
    "moved-at-least": HistoryCost(
        "the fewest moves that an even assignment needed after each rebalance",
        "sum", moves.fewest,
    ),
    "unavailable-member-ms": HistoryCost(
        "the time, over all members, in which a running member had no assignment",
        "sum", _unavailable,
    ),
    "unowned-ms": HistoryCost(
        "the longest time in which a partition had no owner", "max", _unowned
    ),
    "heartbeat-gap-ms": HistoryCost(
        "the longest time between two heartbeats of a member that were answered", "max", _gap
    ),
    "expelled": HistoryCost("how often a member was told that it is no member", "sum", _expelled),
    "failed": HistoryCost("members that an error ended", "sum", _failed),
    "commits": HistoryCost("acknowledged commits", "sum", _count(Kind.COMMITTED)),
    "failed-commits": HistoryCost(
        "commits that were refused or not answered", "sum", _count(Kind.COMMIT_FAILED)
    ),
    "disconnects": HistoryCost(
        "connections that broke, and answers that never came", "sum", _count(Kind.DISCONNECTED)
    ),
}  # fmt: skip
"""The figures by their names."""


def by_cause(history: PreparedHistory) -> DataFrame:
    """Return the rebalances by cause: how many, and how long they took."""
    took_ms = F.col("stable_ms") - F.col("began_ms")
    return (
        rebalances(history)
        .groupBy("cause")
        .agg(
            F.count("*").alias("rebalances"),
            F.percentile_approx(took_ms, 0.5).alias("p50_ms"),
            F.max(took_ms).alias("max_ms"),
        )
        .orderBy("cause")
    )
