"""Tenures: how long a life was a member at a stretch, from a join as a newcomer on.

A member of a classic group that joins again under its member id goes on; with epochs each join is
a newcomer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.ownership import backward as told_backward
from bench.histories.ownership import found
from bench.histories.prepared import CLASSIC, EXPELLED, LIFE, asked_ms, is_kind
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from bench.histories.prepared import PreparedHistory

TENURE: Final = (*LIFE, "tenure")


def tenured(history: PreparedHistory) -> DataFrame:
    """Return the milestones with the number of their ``tenure``; 0: before the first join.

    ``is_new``: whether a row is the join of a newcomer; ``own_ms``: when the last of these before
    the row, or the row itself, was sent.
    """
    return history.once("tenured", _tenured)


def tenures(history: PreparedHistory) -> DataFrame:
    """Return the tenures of all lives, by the first join of each."""
    return history.once("tenures", _tenures)


def _tenured(history: PreparedHistory) -> DataFrame:
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    is_expelled = is_kind(Kind.LOST) & F.col("error").isin(*EXPELLED)
    known = F.when(is_kind(Kind.JOINED), F.col("member_id")).when(is_expelled, F.lit(""))
    is_again = (F.col("protocol") == CLASSIC) & (F.col("known_as") == F.col("member_id"))
    is_new = is_kind(Kind.JOINED) & ~F.coalesce(is_again, F.lit(False))
    asked = F.when(F.col("is_new"), asked_ms())
    return (
        history.milestones.withColumn("known_as", F.last(known, ignorenulls=True).over(before))
        .withColumn("is_new", is_new)
        .withColumn("tenure", F.sum(F.col("is_new").cast("int")).over(so_far))
        .withColumn("own_ms", F.last(asked, ignorenulls=True).over(so_far))
        .drop("known_as", "assigned", "owned", "revoked")
    )


def _tenures(history: PreparedHistory) -> DataFrame:
    def first(column: str) -> Column:
        return F.min(F.when(F.col("is_new"), F.col(column)))

    unfenced = F.col("was_fenced").isNull() | (F.col("was_fenced") != F.col("member_id"))
    return (
        tenured(history)
        .where(F.col("tenure") > 0)
        .groupBy(*TENURE, "protocol", "instance_id")
        .agg(
            F.min("own_ms").alias("asked_ms"),
            first("time_ms").alias("joined_ms"),
            first("generation").alias("generation"),
            first("told").alias("told"),
            F.min(F.when(is_kind(Kind.ASSIGNED), F.col("time_ms"))).alias("assigned_ms"),
            F.max(F.when(unfenced, F.col("sign_ms"))).alias("served_ms"),
            F.max("sign_ms").alias("sign_ms"),
            F.max("renewed_ms").alias("renewed_ms"),
            F.max(is_kind(Kind.LOST, Kind.FAILED)).alias("is_lost"),
            F.max(is_kind(Kind.LEFT)).alias("has_left"),
        )
    )


def backward(history: PreparedHistory) -> DataFrame:
    """Find members that were told an older generation, or epoch, than they or others had been."""
    return told_backward(history).unionByName(joined_backward(history))


def joined_backward(history: PreparedHistory) -> DataFrame:
    """Find newcomers that were told an older generation than another member before they asked.

    The other one's, or a third's, membership lasts until then: a group without members may begin
    again. Members with epochs lag behind their group's, so that only joins can be compared.
    """
    members = _in_blocks(history)
    error_ms = history.facts.clock_error_ms
    is_written = is_kind(Kind.ASSIGNED) | (is_kind(Kind.JOINED) & (F.col("protocol") != CLASSIC))
    told = (
        tenured(history)
        .where(is_written)
        .join(members.select(*TENURE, "block"), list(TENURE))
        .select(
            "group_id", "block", F.col("time_ms").alias("at_ms"), F.col("generation").alias("newer")
        )
    )
    joined = members.select(
        "group_id", "block", (F.col("asked_ms") - error_ms).alias("at_ms"), "member", "joined_ms",
        "generation", "told",
    )  # fmt: skip
    before = (
        Window.partitionBy("group_id", "block")
        .orderBy("at_ms")
        .rangeBetween(Window.unboundedPreceding, -1)
    )
    older = (
        joined.unionByName(told, allowMissingColumns=True)
        .withColumn("reached", F.max("newer").over(before))
        .where(F.col("member").isNotNull() & (F.col("generation") < F.col("reached")))
        .where(F.col("told").isNull() | (F.col("generation") >= F.col("told")))
    )
    text = "%s joined in generation %s, and its group had been in %s"
    return found(older, "member", "joined_ms", text, "member", "generation", "reached")


def _in_blocks(history: PreparedHistory) -> DataFrame:
    """Return tenures with the number of their ``block``: in one, the group is never empty.

    A life is a member until it sent the last request that shows it; a static one that just stops
    until its session ends.
    """
    sessions = history.lives.select(*LIFE, "session_timeout_ms")
    stops = F.col("instance_id").isNotNull() & ~F.col("is_lost") & (
        (F.col("protocol") == CLASSIC) | ~F.col("has_left")
    )  # fmt: skip
    session_ms = F.when(stops, F.col("renewed_ms") + F.col("session_timeout_ms"))
    in_order = Window.partitionBy("group_id").orderBy("joined_ms", "to_ms")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    is_empty = F.col("joined_ms") > F.col("covered_ms") - history.facts.clock_error_ms
    return (
        tenures(history)
        .join(sessions, list(LIFE))
        .withColumn("to_ms", F.greatest("sign_ms", session_ms))
        .withColumn("covered_ms", F.max("to_ms").over(before))
        .withColumn("begins", F.coalesce(is_empty, F.lit(True)))
        .withColumn("block", F.sum(F.col("begins").cast("int")).over(so_far))
    )
