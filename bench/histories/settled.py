"""Settled groups: whether one of them leaves a partition to nobody, in the middle of a run."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.completed import FLAP, left_out
from bench.histories.ownership import found
from bench.histories.prepared import LIFE, SHARED, TOLD, is_kind
from bench.histories.schema import CHANGE, ENDED, FAULT, FINAL, STARTED
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from bench.histories.prepared import PreparedHistory

SESSIONS: Final = 2
"""A hole counts from so many sessions on: by then a silent member is out, and others take over."""

CALM: Final = 3
"""A group is not settled for this part of a session after its coordinator was disturbed."""

DELTAS: Final = ("alive", "told", "busy")


def incomplete(history: PreparedHistory) -> DataFrame:
    """Find partitions that nobody owned, though every member had its assignment.

    Either for long, or in a generation of a classic group. Groups that share partitions are left
    out, and those whose members subscribe to different topics for a time.
    """
    return _long_holes(history).unionByName(left_out(history, whole_groups(history)))


def whole_groups(history: PreparedHistory) -> DataFrame:
    """Return the groups whose members all subscribe to all of its ``owned`` partitions."""
    flaps = history.rows.where(is_kind(CHANGE) & (F.col("cause") == FLAP)).select("group_id")
    whole = history.groups.where((F.col("protocol") != SHARED) & F.col("others").isNull())
    if history.facts.missing_members:
        whole = whole.where(F.lit(False))  # who is missing may own what nobody seems to own
    return whole.join(F.broadcast(flaps.distinct()), "group_id", "left_anti")


def _long_holes(history: PreparedHistory) -> DataFrame:
    """Find partitions that nobody owned for long while their group was settled.

    A group is settled while every member is in its newest generation and has its assignment, no
    session of a member that went lasts, and its coordinator was not disturbed lately. Only the
    time in which it was settled counts, whatever happens in between.
    """
    gaps = history.once("long-gaps", _long_gaps)
    settled = _settled(history, gaps.select("group_id").distinct())
    until_ms = F.least("until_ms", "free_until_ms")
    since_ms = F.greatest("time_ms", "free_ms")
    free = (
        gaps.join(settled, "group_id")
        .where((F.col("time_ms") < F.col("free_until_ms")) & (F.col("until_ms") > F.col("free_ms")))
        .groupBy("group_id", "partition", "free_ms", "bound_ms")
        .agg(
            F.sum(until_ms - since_ms).alias("lasted_ms"),
            F.min(since_ms).alias("time_ms"),
            F.max("newest").alias("newest"),
        )
        .where(F.col("lasted_ms") > F.col("bound_ms"))
    )
    text = "%s was nobody's up to generation %s for %s ms, and every member had its assignment"
    return found(free, "partition", "time_ms", text, "partition", "newest", "lasted_ms")


def _long_gaps(history: PreparedHistory) -> DataFrame:
    """Return from when to when a partition had no owner, if that is long; it had one before."""
    bounds = history.lives.groupBy("group_id").agg(
        (SESSIONS * F.max("session_timeout_ms")).alias("bound_ms")
    )
    wanted = whole_groups(history).select("group_id", F.explode("owned").alias("partition"))
    of_partition = Window.partitionBy("group_id", "partition").orderBy("from_ms", "to_ms")
    so_far = of_partition.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    next_ms = F.lead("from_ms").over(of_partition)
    return (
        history.spans.withColumn("free_ms", F.max("to_ms").over(so_far))
        .withColumn("free_until_ms", F.coalesce(next_ms, F.lit(history.facts.ended_ms)))
        .join(F.broadcast(bounds), "group_id")
        .where(F.col("free_until_ms") - F.col("free_ms") > F.col("bound_ms"))
        .join(wanted, ["group_id", "partition"], "left_semi")
        .select("group_id", "partition", "free_ms", "free_until_ms", "bound_ms")
    )


def _settled(history: PreparedHistory, groups: DataFrame) -> DataFrame:
    """Return from when to when these groups are settled, and their newest generation.

    What changes that are steps, which change sums over the members: how many there are, the
    generations that they were told. So nothing is compared in pairs.
    """
    steps = reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True),
        (_members(history, groups), _sessions(history, groups), _disturbed(history, groups)),
    )
    in_order = Window.partitionBy("group_id").orderBy("time_ms")
    so_far = in_order.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    end_ms = F.lit(history.facts.ended_ms)
    sums = {name: F.sum(F.coalesce(name, F.lit(0))).over(so_far) for name in DELTAS}
    is_settled = (
        (F.col("alive") > 0) & (F.col("busy") == 0)
        & (F.col("told") == F.col("alive") * F.col("newest"))
    )  # fmt: skip
    return (
        steps.withColumns({**sums, "newest": F.max("generation").over(so_far)})
        .withColumn("until_ms", F.coalesce(F.lead("time_ms").over(in_order), end_ms))
        .where(is_settled & (F.col("until_ms") > F.col("time_ms")))
        .select("group_id", "time_ms", "until_ms", "newest")
    )


def _members(history: PreparedHistory, groups: DataFrame) -> DataFrame:
    """Return what each row of a life changes in the sums over its group."""
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def latest(value: Column) -> Column:
        return F.last(value, ignorenulls=True).over(so_far)

    def change(name: str) -> Column:
        return F.col(name) - F.coalesce(F.lag(name).over(in_order), F.lit(0))

    joins_again = (F.col("protocol") == "classic") & F.col("revoked").isNotNull()
    has_its_own = F.when(is_kind(Kind.ASSIGNED), ~joins_again).when(
        is_kind(STARTED, Kind.JOINED, Kind.REBALANCING, Kind.LOST), F.lit(False)
    )
    is_alive = F.when(is_kind(ENDED, Kind.LEFT, Kind.FAILED), F.lit(False)).when(
        is_kind(STARTED, Kind.JOINED, Kind.ASSIGNED), F.lit(True)
    )
    generation = F.when(is_kind(*TOLD), F.col("generation"))
    rows = (
        history.milestones.where(~is_kind(FINAL))
        .join(groups, "group_id", "left_semi")
        .withColumn("is_alive", F.coalesce(latest(is_alive), F.lit(True)))
        .withColumn("is_ready", F.coalesce(latest(has_its_own), F.lit(False)))
        .withColumn("generation", latest(generation))
        .withColumn("alive", F.col("is_alive").cast("int"))
        .withColumn(
            "told",
            F.when(~F.col("is_alive"), 0)
            .when(F.col("is_ready"), F.col("generation"))
            .otherwise(-1),
        )
    )
    return rows.select(
        "group_id", "time_ms", "generation", change("alive").alias("alive"),
        change("told").alias("told"),
    )  # fmt: skip


def _sessions(history: PreparedHistory, groups: DataFrame) -> DataFrame:
    """Return when the sessions of members that went begin to count, and when they are over."""
    gone = history.lives.where(F.col("ended_ms").isNotNull()).join(groups, "group_id", "left_semi")
    over = gone.where(F.col("session_timeout_ms").isNotNull())
    since = gone.select("group_id", F.col("ended_ms").alias("time_ms"), F.lit(1).alias("busy"))
    until_ms = (F.col("ended_ms") + F.col("session_timeout_ms")).alias("time_ms")
    return since.unionByName(over.select("group_id", until_ms, F.lit(-1).alias("busy")))


def _disturbed(history: PreparedHistory, groups: DataFrame) -> DataFrame:
    """Return when the coordinator was disturbed, or could not answer, and when that is over."""
    told = history.rows.where(is_kind(FAULT, Kind.RETRIED, Kind.DISCONNECTED))
    own = told.where(F.col("group_id").isNotNull()).select("group_id", "time_ms")
    to_all = told.where(F.col("group_id").isNull()).select("time_ms")
    calm = history.lives.groupBy("group_id").agg(
        F.floor(F.max("session_timeout_ms") / CALM).alias("calm_ms")
    )
    begun = (
        own.join(groups, "group_id", "left_semi")
        .unionByName(groups.crossJoin(to_all))
        .distinct()
        .join(calm, "group_id")
    )
    over_ms = (F.col("time_ms") + F.col("calm_ms")).alias("time_ms")
    return begun.select("group_id", "time_ms", F.lit(1).alias("busy")).unionByName(
        begun.select("group_id", over_ms, F.lit(-1).alias("busy"))
    )
