"""Settled groups: whether one of them leaves a partition to nobody, in the middle of a run."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.ownership import found
from bench.histories.prepared import LIFE, SHARED, TOLD, is_kind
from bench.histories.schema import CHANGE, ENDED, FAULT, FINAL, STARTED
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from bench.histories.prepared import PreparedHistory

SESSIONS: Final = 2
"""A hole counts from so many sessions on: by then a silent member is out, and others take over."""

DELTAS: Final = ("alive", "told", "owned", "busy", "known")


def incomplete(history: PreparedHistory) -> DataFrame:
    """Find partitions that had an owner, and later nobody's in a settled group, for long.

    A group is settled while every member is in its newest generation and has its assignment, and no
    session of a member that went lasts. Groups that share partitions are left out, and those whose
    members subscribe to different topics for a time.
    """
    holes = history.once("holes", _holes)
    owned = history.spans.select("group_id", "partition", "from_ms", "to_ms")
    covered = (
        holes.join(owned, "group_id")
        .where((F.col("from_ms") <= F.col("time_ms")) & (F.col("to_ms") > F.col("time_ms")))
        .select("group_id", "time_ms", "partition")
    )
    free = (
        holes.join(history.once("first-owned", _first_owned), "group_id")
        .where(F.col("first_ms") <= F.col("time_ms"))
        .join(covered, ["group_id", "time_ms", "partition"], "left_anti")
    )
    text = "%s was nobody's in generation %s for %s ms, and every member had its assignment"
    return found(free, "partition", "time_ms", text, "partition", "newest", "lasted_ms")


def _first_owned(history: PreparedHistory) -> DataFrame:
    """Return when each partition of the groups that are looked at had its first owner."""
    wanted = _groups(history).select("group_id", F.explode("owned").alias("partition"))
    firsts = history.spans.groupBy("group_id", "partition").agg(F.min("from_ms").alias("first_ms"))
    return firsts.join(wanted, ["group_id", "partition"], "left_semi")


def _groups(history: PreparedHistory) -> DataFrame:
    return history.groups.where((F.col("protocol") != SHARED) & F.col("others").isNull())


def _holes(history: PreparedHistory) -> DataFrame:
    """Return when a settled group had fewer owned partitions than before, and how long.

    Every row of a group is a step that changes sums over its members: how many there are, the
    generations that they were told, how many partitions they own. So nothing is compared in pairs.
    """
    firsts = history.once("first-owned", _first_owned).select(
        "group_id", F.col("first_ms").alias("time_ms")
    )
    steps = reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True),
        (
            _members(history),
            _sessions(history),
            _interruptions(history),
            firsts.withColumn("known", F.lit(1)),
        ),
    )
    in_order = Window.partitionBy("group_id").orderBy("time_ms")
    so_far = in_order.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    end_ms = F.lit(history.facts.ended_ms)
    sums = {name: F.sum(F.coalesce(name, F.lit(0))).over(so_far) for name in DELTAS}
    bound = history.lives.groupBy("group_id").agg(
        (SESSIONS * F.max("session_timeout_ms")).alias("bound_ms")
    )
    is_settled = (
        (F.col("alive") > 0) & (F.col("busy") == 0)
        & (F.col("told") == F.col("alive") * F.col("newest"))
    )  # fmt: skip
    return (
        steps.withColumns({**sums, "newest": F.max("generation").over(so_far)})
        .withColumn(
            "lasted_ms", F.coalesce(F.lead("time_ms").over(in_order), end_ms) - F.col("time_ms")
        )
        .where(is_settled & (F.col("owned") < F.col("known")))
        .join(bound, "group_id")
        .where(F.col("lasted_ms") > F.col("bound_ms"))
        .select("group_id", "time_ms", "newest", "lasted_ms")
        .distinct()
    )


def _members(history: PreparedHistory) -> DataFrame:
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
    mine = F.size(F.array_intersect(F.coalesce(latest(F.col("owned")), F.array()), F.col("wanted")))
    wanted = _groups(history).select("group_id", F.col("owned").alias("wanted"))
    rows = (
        history.milestones.where(~is_kind(FINAL))
        .join(wanted, "group_id")
        .withColumn("is_alive", F.coalesce(latest(is_alive), F.lit(True)))
        .withColumn("is_ready", F.coalesce(latest(has_its_own), F.lit(False)))
        .withColumn("generation", latest(generation))
        .withColumn("owned", F.when(F.col("is_alive"), mine).otherwise(0))
        .withColumn("alive", F.col("is_alive").cast("int"))
        .withColumn(
            "told",
            F.when(~F.col("is_alive"), 0)
            .when(F.col("is_ready"), F.col("generation"))
            .otherwise(-1),
        )
    )
    return rows.select(
        "group_id", "time_ms", "generation",
        *(change(name).alias(name) for name in ("alive", "told", "owned")),
    )  # fmt: skip


def _sessions(history: PreparedHistory) -> DataFrame:
    """Return when the sessions of members that went begin to count, and when they are over."""
    gone = history.lives.where(F.col("ended_ms").isNotNull())
    over = gone.where(F.col("session_timeout_ms").isNotNull())
    since = gone.select("group_id", F.col("ended_ms").alias("time_ms"), F.lit(1).alias("busy"))
    until_ms = (F.col("ended_ms") + F.col("session_timeout_ms")).alias("time_ms")
    return since.unionByName(over.select("group_id", until_ms, F.lit(-1).alias("busy")))


def _interruptions(history: PreparedHistory) -> DataFrame:
    """Return when the coordinator was disturbed, or could not answer."""
    told = history.rows.where(is_kind(CHANGE, FAULT, Kind.RETRIED, Kind.DISCONNECTED))
    own = told.where(F.col("group_id").isNotNull()).select("group_id", "time_ms")
    to_all = told.where(F.col("group_id").isNull()).select("time_ms")
    return own.unionByName(history.groups.select("group_id").crossJoin(to_all)).distinct()
