"""The rebalances of a run: what seems to have caused each, how long it took, and what it moved.

Causes are inferred from members' rows, of any cluster; what a coordinator knows of its own is in
:mod:`protocol.stories.causes`, and finer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.prepared import EXPELLED, LIFE, ROUTINE, asked_ms, is_kind
from bench.histories.schema import CHANGE, ENDED, FAULT
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from bench.histories.prepared import PreparedHistory

JOINED, LEFT, EXPIRED = "a member joined", "a member left", "a session ended"
RESTARTED, TOLD_AGAIN = "a static member restarted", "a member lost its place and joined again"
REJOINED = "a member joined again by itself"
CHANGED, FAILED_OVER, UNKNOWN = "a change of the run", "a fault of the run", "unknown"

RANKS: Final[Mapping[str, int]] = {
    JOINED: 0, LEFT: 0, EXPIRED: 0, TOLD_AGAIN: 0, REJOINED: 0, RESTARTED: 1, CHANGED: 2,
    FAILED_OVER: 3, UNKNOWN: 4,
}  # fmt: skip
"""The inferred causes. Among what happened before a rebalance, the lowest rank is its cause, then
the earliest: the restart of a static member should cause none, and a change or a fault of the run
is named only if no member did anything."""


def rebalances(history: PreparedHistory) -> DataFrame:
    """Return each group's rebalances since the change.

    A rebalance is a generation, or epoch, newer than all before the change, that a member was
    assigned in (:class:`protocol.members.promises.Generations`). ``began_ms`` is its cause's time,
    ``stable_ms`` when the last member got its first assignment of it.
    """
    return history.once("rebalances", _rebalances)


def _rebalances(history: PreparedHistory) -> DataFrame:
    assigned = history.milestones.where(is_kind(Kind.ASSIGNED))
    since = F.lit(history.facts.changed_ms)
    old = assigned.groupBy("group_id").agg(
        F.max(F.when(F.col("time_ms") < since, F.col("generation"))).alias("old")
    )
    started = history.lives.select(*LIFE, "started_ms")
    of_generation = Window.partitionBy("group_id", "generation")
    firsts = (
        assigned.groupBy(*LIFE, "generation")
        .agg(F.min("time_ms").alias("time_ms"))
        .join(started, list(LIFE))
        .withColumn("first_ms", F.min("time_ms").over(of_generation))
        .where(F.col("started_ms") <= F.col("first_ms"))  # not of those that restarted since
    )
    in_order = Window.partitionBy("group_id").orderBy("generation")
    found = (
        firsts.groupBy("group_id", "generation")
        .agg(F.min("first_ms").alias("first_ms"), F.max("time_ms").alias("stable_ms"))
        .withColumn("after_ms", F.lag("first_ms").over(in_order))
        .join(old, "group_id")
        .where(F.col("generation") > F.coalesce("old", F.lit(-1)))
    )
    is_between = (F.col("at_ms") <= F.col("first_ms")) & (
        F.col("at_ms") > F.coalesce("after_ms", F.lit(0))
    )
    by = F.when(is_between, F.struct("rank", "at_ms", "cause", "began_ms"))
    return (
        found.join(_causes(history), "group_id", "left")
        .groupBy("group_id", "generation", "first_ms", "stable_ms")
        .agg(F.min(by).alias("by"))
        .select(
            "group_id", "generation", "stable_ms",
            F.coalesce("by.cause", F.lit(UNKNOWN)).alias("cause"),
            F.coalesce("by.began_ms", "first_ms").alias("began_ms"),
        )
    )  # fmt: skip


def _causes(history: PreparedHistory) -> DataFrame:
    """Return what may cause a rebalance: when, how it ranks, and when it began.

    A member that vanished causes one when its session ends, and began that when it vanished. A
    member of a classic group joins again by itself when its subscription changes.
    """
    lives = _restarted(history.lives)
    started = _cause(lives, F.when(F.col("is_back"), F.lit(RESTARTED)).otherwise(F.lit(JOINED)),
                     F.col("started_ms"))  # fmt: skip
    rows = history.milestones
    left = _cause(rows.where(is_kind(Kind.LEFT)), F.lit(LEFT), asked_ms())
    again = _cause(rows.where(is_kind(Kind.LOST)), F.lit(TOLD_AGAIN), F.col("time_ms"))
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    after_assigned = F.lag("kind").over(in_order) == str(Kind.ASSIGNED)
    told = rows.where(~is_kind(*ROUTINE)).withColumn("by_itself", after_assigned)
    rejoined = told.where(is_kind(Kind.JOINED))
    by_itself = _cause(rejoined.where("by_itself"), F.lit(REJOINED), asked_ms())
    expires = F.col("renewed_ms") + F.coalesce("session", F.lit(0))
    sessions = lives.select(*LIFE, F.col("session_timeout_ms").alias("session"))
    expelled = rows.where(is_kind(Kind.LOST) & F.col("error").isin(*EXPELLED)).join(
        sessions, list(LIFE)
    )
    silent = _cause(expelled, F.lit(EXPIRED), expires, F.col("renewed_ms"))
    leavers = rows.where(is_kind(Kind.LEFT, Kind.FAILED)).select(*LIFE)
    leavers = leavers.union(lives.where("is_followed").select(*LIFE))
    gone = (
        rows.where(is_kind(ENDED)).join(leavers, list(LIFE), "left_anti").join(sessions, list(LIFE))
    )
    vanished = _cause(gone, F.lit(EXPIRED), F.greatest(expires, "time_ms"), F.col("time_ms"))
    word = F.when(is_kind(CHANGE), F.lit(CHANGED)).otherwise(F.lit(FAILED_OVER))
    marked = _cause(marks(history), word, F.col("time_ms"))
    return (
        started.union(left)
        .union(again)
        .union(by_itself)
        .union(silent)
        .union(vanished)
        .union(marked)
    )


def _restarted(lives: DataFrame) -> DataFrame:
    """Return lives with ``is_back``: whether a static member came back before its session ended.

    If it is not known how long sessions last, it did. ``is_followed`` says the same of the life
    before: its session never ended.
    """
    of_member = Window.partitionBy("group_id", "instance_id").orderBy("life")
    ended_ms = F.lag("sign_ms").over(of_member) + F.lag("session_timeout_ms").over(of_member)
    is_before = F.coalesce(F.coalesce("joined_ms", "started_ms") < ended_ms, F.lit(True))
    is_again = F.col("instance_id").isNotNull() & (F.row_number().over(of_member) > 1)
    back = lives.withColumn("is_back", is_again & is_before)
    followed = F.lead("is_back").over(of_member) & F.col("instance_id").isNotNull()
    return back.withColumn("is_followed", F.coalesce(followed, F.lit(False)))


def marks(history: PreparedHistory) -> DataFrame:
    """Return the changes and faults of each group; those of the cluster are every group's."""
    told = history.rows.where(is_kind(CHANGE, FAULT)).select("group_id", "kind", "time_ms")
    of_all = told.where(F.col("group_id").isNull()).drop("group_id")
    everywhere = history.groups.select("group_id").crossJoin(of_all)
    return told.where(F.col("group_id").isNotNull()).unionByName(everywhere)


def _cause(
    rows: DataFrame, cause: Column, at_ms: Column, began_ms: Column | None = None
) -> DataFrame:
    ranks = F.create_map(*[F.lit(each) for row in RANKS.items() for each in row])
    return rows.select(
        "group_id",
        at_ms.alias("at_ms"),
        cause.alias("cause"),
        ranks[cause].alias("rank"),
        (at_ms if began_ms is None else began_ms).alias("began_ms"),
    )
