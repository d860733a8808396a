"""Checks of instance ids: who had one when, and who was served, fenced or refused because of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.episodes import marks
from bench.histories.ownership import found
from bench.histories.prepared import (
    CLASSIC,
    FENCED,
    FOREVER_MS,
    LIFE,
    UNRELEASED,
    asked_ms,
    is_kind,
)
from bench.histories.schema import ENDED, FAULT, FINAL, STARTED
from bench.histories.tenures import tenured, tenures
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from bench.histories.prepared import PreparedHistory

SILENT_MS: Final = 120_000
"""A member that is silent for so long, and for three of its sessions, is no member."""

NEAR_MS: Final = 30_000
"""A request so soon after trouble may have come to a node that was no coordinator any more."""


def zombie_served(history: PreparedHistory) -> DataFrame:
    """Find lives that were served after another life had taken their instance id.

    The request was sent after the other one's join had been answered, and written. What was served
    after the life had been fenced is left to another check.
    """
    static = tenures(history).where(F.col("instance_id").isNotNull())
    written_ms = F.when(F.col("protocol") == CLASSIC, F.col("assigned_ms")).otherwise(
        F.col("joined_ms")
    )
    takers = static.select(
        "group_id", "instance_id",
        F.col("member").alias("other"), F.col("life").alias("other_life"),
        F.col("asked_ms").alias("taken_asked_ms"), written_ms.alias("taken_ms"),
    )  # fmt: skip
    error_ms = history.facts.clock_error_ms
    late = (
        static.join(takers, ["group_id", "instance_id"])
        .where(_is_another())
        .where(F.col("taken_asked_ms") > F.col("joined_ms") + error_ms)
        .where(F.col("served_ms") > F.col("taken_ms") + error_ms)
        .groupBy(*LIFE)
        .agg(
            F.max("served_ms").alias("served_ms"),
            F.min(F.struct("taken_ms", "other_life")).alias("by"),
        )
        .withColumn("after_ms", F.col("served_ms") - F.col("by.taken_ms"))
        .withColumn("other_life", F.col("by.other_life"))
    )
    text = "life %s of %s was served %s ms after life %s had joined with its instance id"
    return found(late, "member", "served_ms", text, "life", "member", "after_ms", "other_life")


def fenced_wrongly(history: PreparedHistory) -> DataFrame:
    """Find members that were fenced though nobody took their instance id from them.

    Who took it sent its join before the fencing was answered, and was not answered before the
    fenced life had sent its own. A join without an answer may have come to the coordinator.
    """
    error_ms = history.facts.clock_error_ms
    fenced = (
        tenured(history)
        .where(F.col("error") == FENCED)
        .groupBy(*LIFE, "instance_id")
        .agg(F.min(F.struct("time_ms", "own_ms")).alias("at"))
        .select(*LIFE, "instance_id", "at.time_ms", F.coalesce("at.own_ms", F.lit(0)).alias("own"))
    )
    others = _attempts(history).select(
        "group_id", "instance_id",
        F.col("member").alias("other"), F.col("life").alias("other_life"),
        "sent_ms", "done_ms",
    )  # fmt: skip
    is_taken = (
        _is_another()
        & (F.col("sent_ms") <= F.col("time_ms") + error_ms)
        & (F.col("done_ms") >= F.col("own") - error_ms)
    )
    wrong = (
        fenced.join(others, ["group_id", "instance_id"], "left")
        .groupBy(*LIFE, "time_ms")
        .agg(F.max(F.coalesce(is_taken, F.lit(False))).alias("is_right"))
        .where(~F.col("is_right"))
    )
    text = "%s was fenced, and nobody had joined as %s after it"
    return found(wrong, "member", "time_ms", text, "member", "member")


def refused_wrongly(history: PreparedHistory) -> DataFrame:
    """Find members that were refused their instance id though nobody else could hold it."""
    error_ms = history.facts.clock_error_ms
    refused = _with_trouble(
        history,
        history.rows.where(F.col("error") == UNRELEASED)
        .where(F.col("instance_id").isNotNull())
        .select(*LIFE, "instance_id", "time_ms", asked_ms().alias("asked_ms")),
    )
    holders = _holders(history)
    since_ms = F.greatest("last_ms", "trouble_ms")
    silent_ms = F.greatest(3 * F.col("session_timeout_ms"), F.lit(SILENT_MS))
    is_silent = ~F.col("is_there") & (since_ms + silent_ms < F.col("asked_ms") - error_ms)
    is_over = F.col("session_timeout_ms").isNotNull() & is_silent
    is_calm = F.coalesce(F.col("trouble_ms") < F.col("left_ms") - NEAR_MS, F.lit(True))
    has_left = (F.col("left_ms") < F.col("asked_ms") - error_ms) & is_calm
    is_gone = F.coalesce(is_over, F.lit(False)) | F.coalesce(has_left, F.lit(False))
    holds = _is_another() & (F.col("first_ms") <= F.col("time_ms") + error_ms) & ~is_gone
    wrong = (
        refused.join(holders, ["group_id", "instance_id"], "left")
        .groupBy(*LIFE, "time_ms")
        .agg(F.max(F.coalesce(holds, F.lit(False))).alias("is_right"))
        .where(~F.col("is_right"))
        .groupBy(*LIFE)
        .agg(F.min("time_ms").alias("time_ms"), F.count("*").alias("times"))
    )
    text = "%s was refused %s times with unreleased_instance_id, and nobody else could hold its id"
    return found(wrong, "member", "time_ms", text, "member", "times")


def _is_another() -> Column:
    return (F.col("other") != F.col("member")) | (F.col("other_life") != F.col("life"))


def _attempts(history: PreparedHistory) -> DataFrame:
    """:func:`_attempts_made` of this history."""
    return history.once("attempts", _attempts_made)


def _attempts_made(history: PreparedHistory) -> DataFrame:
    """Return when lives asked, or may have asked, to join with their instance id.

    ``done_ms`` is when the answer came, if it did. A life that ended or was there in the end may
    wait for an answer since its row before.
    """
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    joins = F.when(is_kind(Kind.LOST), F.lit(True)).when(
        is_kind(Kind.JOINED, Kind.FAILED, Kind.LEFT), F.lit(False)
    )
    is_open = is_kind(Kind.DISCONNECTED, Kind.LEFT, ENDED, FINAL)
    return (
        history.rows.where(F.col("instance_id").isNotNull())
        .where(
            is_open | is_kind(STARTED, Kind.JOINED, Kind.LOST, Kind.FAILED, Kind.RETRIED)
        )
        .withColumn("before_ms", F.lag("time_ms").over(in_order))
        .withColumn("joins", F.coalesce(F.last(joins, ignorenulls=True).over(before), F.lit(True)))
        .where(F.col("joins") & ~is_kind(STARTED))
        .where(F.col("error").isNull() | (F.col("error") != UNRELEASED))
        .select(
            *LIFE, "instance_id",
            F.coalesce("asked_ms", "before_ms", "time_ms").alias("sent_ms"),
            F.when(is_open, F.lit(FOREVER_MS)).otherwise(F.col("time_ms")).alias("done_ms"),
        )
    )  # fmt: skip


def _holders(history: PreparedHistory) -> DataFrame:
    """Return who may have had an instance id: since when, and when it was last heard of.

    ``left_ms``: when a member with epochs left, if its request was answered. A static member of a
    classic group just stops.
    """
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    ends = history.rows.where(F.col("instance_id").isNotNull()).where(
        is_kind(Kind.LEFT, Kind.DISCONNECTED)
    )
    was_cut = (F.lag("kind").over(in_order) == str(Kind.DISCONNECTED)) & (
        F.lag("time_ms").over(in_order) == F.col("time_ms")
    )
    left = (
        ends.withColumn("was_cut", F.coalesce(was_cut, F.lit(False)))
        .where(is_kind(Kind.LEFT) & F.col("asked_ms").isNotNull() & ~F.col("was_cut"))
        .where(F.col("protocol") != CLASSIC)
        .groupBy(*LIFE)
        .agg(F.max("time_ms").alias("left_ms"))
    )
    asked = _attempts(history).groupBy(*LIFE).agg(F.min("sent_ms").alias("first_ms"))
    lives = history.lives.select(
        *LIFE, "instance_id", "session_timeout_ms",
        F.greatest("ended_ms", "sign_ms").alias("last_ms"),
        (F.col("is_there") | F.col("ended_ms").isNull()).alias("is_there"),
    )  # fmt: skip
    return (
        lives.join(asked, list(LIFE))
        .join(left, list(LIFE), "left")
        .withColumnRenamed("member", "other")
        .withColumnRenamed("life", "other_life")
    )


def _with_trouble(history: PreparedHistory, refused: DataFrame) -> DataFrame:
    """Add when the group's coordinator last may have changed, as sessions begin again then."""
    is_trouble = is_kind(Kind.RETRIED, Kind.DISCONNECTED) & (
        F.col("error").isNull() | (F.col("error") != UNRELEASED)
    )
    cut = history.rows.where(is_trouble).select("group_id", "time_ms")
    faults = marks(history).where(is_kind(FAULT)).select("group_id", "time_ms")
    trouble = cut.union(faults).withColumn("at_ms", F.col("time_ms"))
    until = (
        Window.partitionBy("group_id")
        .orderBy("time_ms")
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        refused.unionByName(trouble, allowMissingColumns=True)
        .withColumn("trouble_ms", F.max("at_ms").over(until))
        .where(F.col("member").isNotNull())
        .drop("at_ms")
    )
