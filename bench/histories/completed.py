"""Completed generations of classic groups: whether one leaves a partition out, however short it is.

A generation is completed when every member that joined it has its assignment. Then these must be
all partitions that had an owner before: as in Kafka's test_valid_assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.ownership import found
from bench.histories.prepared import CLASSIC, FOREVER_MS, LIFE, asked_ms, holder, is_kind
from bench.histories.schema import STARTED
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bench.histories.prepared import PreparedHistory

FLAP: Final = "flap"
"""The change of a run that lets some members subscribe to other topics, or to fewer."""

GENERATION: Final = ("group_id", "generation")


def left_out(history: PreparedHistory, groups: DataFrame) -> DataFrame:
    """Find partitions of these groups that a completed generation gave to nobody.

    What a cooperative member still has, or gives up at once, is on its way to another one. A
    generation does not count if a member of it may be unknown: if a request to join may have come
    to the coordinator, and its answer to nobody.
    """
    missing = history.once("left-out", lambda each: _missing(each, groups))
    excused = _generations_in(
        _unassigned(history), _unanswered(history, missing), _disturbed(history, missing)
    )
    bad = missing.join(excused, list(GENERATION), "left_anti")
    text = "%s was given to nobody in generation %s, and every member had its assignment"
    return found(bad, "partition", "last_ms", text, "partition", "generation")


def _generations_in(*each: DataFrame) -> DataFrame:
    """Return the generations in some of these tables."""
    one, *others = (rows.select(*GENERATION) for rows in each)
    for other in others:
        one = one.unionByName(other)
    return one.distinct()


def _told(history: PreparedHistory) -> DataFrame:
    return history.milestones.where(
        is_kind(Kind.JOINED, Kind.ASSIGNED) & (F.col("protocol") == CLASSIC)
    )


def _missing(history: PreparedHistory, groups: DataFrame) -> DataFrame:
    """Return the partitions that nobody was given in a generation, and that had an owner before.

    ``before_ms``: when the generation before was told first.
    """
    is_other = F.max(F.col("protocol") != CLASSIC).alias("is_other")
    migrated = history.lives.groupBy("group_id").agg(is_other).where("is_other")
    classic = groups.where(F.col("protocol") == CLASSIC).join(migrated, "group_id", "left_anti")
    wanted = classic.select("group_id", F.col("owned").alias("wanted"))
    none = F.array().cast("array<string>")
    given = F.concat(*(F.coalesce(name, none) for name in ("assigned", "owned", "revoked")))
    in_order = Window.partitionBy("group_id").orderBy("generation")
    firsts = history.spans.groupBy("group_id", "partition").agg(F.min("from_ms").alias("owned_ms"))
    return (
        _told(history)
        .groupBy(*GENERATION)
        .agg(
            F.min(asked_ms()).alias("first_ms"),
            F.min("time_ms").alias("told_ms"),
            F.max(F.when(is_kind(Kind.ASSIGNED), F.col("time_ms"))).alias("last_ms"),
            F.flatten(F.collect_list(F.when(is_kind(Kind.ASSIGNED), given))).alias("given"),
        )
        .where(F.col("last_ms").isNotNull())
        .withColumn("before_ms", F.coalesce(F.lag("told_ms").over(in_order), F.lit(0)))
        .join(wanted, "group_id")
        .withColumn("partition", F.explode(F.array_except("wanted", "given")))
        .join(firsts, ["group_id", "partition"])
        .where(F.col("owned_ms") < F.col("first_ms"))
        .select(*GENERATION, "partition", "before_ms", "last_ms")
    )


def _unassigned(history: PreparedHistory) -> DataFrame:
    """Return the generations of which a member that joined never got its assignment."""
    told = _told(history).select(*GENERATION, "kind", holder().alias("holder"))
    return (
        told.groupBy(*GENERATION, "holder")
        .agg(F.max(is_kind(Kind.ASSIGNED)).alias("has_its_own"))
        .where(~F.col("has_its_own"))
    )


def _unanswered(history: PreparedHistory, missing: DataFrame) -> DataFrame:
    """Return the generations that a life may have joined without knowing: it asked, and ended."""
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    asks = is_kind(STARTED, Kind.REBALANCING, Kind.LOST) & (F.col("protocol") == CLASSIC)
    open_ = (
        history.milestones.withColumn("next_kind", F.lead("kind").over(in_order))
        .withColumn("until_ms", F.coalesce(F.lead("time_ms").over(in_order), F.lit(FOREVER_MS)))
        .where(asks & (F.coalesce("next_kind", F.lit("")) != str(Kind.JOINED)))
        .select("group_id", "time_ms", "until_ms")
    )
    return missing.join(open_, "group_id").where(
        (F.col("time_ms") <= F.col("last_ms")) & (F.col("until_ms") >= F.col("before_ms"))
    )


def _disturbed(history: PreparedHistory, missing: DataFrame) -> DataFrame:
    """Return the generations in which an answer to a member was lost, or told it to try again."""
    lost = history.rows.where(is_kind(Kind.RETRIED, Kind.DISCONNECTED)).select(
        "group_id", "time_ms"
    )
    return missing.join(lost, "group_id").where(
        (F.col("time_ms") >= F.col("before_ms")) & (F.col("time_ms") <= F.col("last_ms"))
    )
