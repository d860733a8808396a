"""The fewest moves of partitions that the rebalances of a run needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.episodes import rebalances
from bench.histories.prepared import SHARED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bench.histories.prepared import PreparedHistory


def fewest(history: PreparedHistory) -> DataFrame:
    """Add up, for each group, the fewest moves that an even assignment needed in each rebalance.

    A partition whose owner is gone moves. Of the others, each member keeps up to its even share.
    This counts as if every member could own every partition.
    """
    in_order = Window.partitionBy("group_id").orderBy("generation")
    steps = rebalances(history).withColumn(
        "before_ms",
        F.coalesce(F.lag("stable_ms").over(in_order), F.lit(history.facts.changed_ms)),
    )
    steps = steps.select("group_id", "generation", "before_ms", "stable_ms")
    sizes = history.groups.where(F.col("protocol") != SHARED).select(
        "group_id", F.size("owned").alias("partitions")
    )
    return (
        _shares(history, steps)
        .join(_members(history, steps), ["group_id", "generation"])
        .join(sizes, "group_id")
        .withColumn("even", F.floor(F.col("partitions") / F.col("members")))
        .withColumn("extra", (F.col("rank") <= F.col("partitions") % F.col("members")).cast("int"))
        .withColumn("keeps", F.least("held", F.col("even") + F.col("extra")))
        .withColumn("moves", F.col("held") - F.when(F.col("is_there"), F.col("keeps")).otherwise(0))
        .groupBy("group_id")
        .agg(F.sum("moves").cast("bigint").alias("value"))
    )


def _shares(history: PreparedHistory, steps: DataFrame) -> DataFrame:
    """Return how much each member held before each rebalance, ranked among those that stay."""
    is_owner = (F.col("from_ms") <= F.col("before_ms")) & (F.col("to_ms") > F.col("before_ms"))
    ends = history.lives.groupBy("group_id", "member").agg(
        F.max(F.coalesce("ended_ms", F.lit(history.facts.ended_ms + 1))).alias("ended_ms")
    )
    most_first = Window.partitionBy("group_id", "generation").orderBy(
        F.desc("is_there"), F.desc("held"), "member"
    )
    return (
        steps.join(history.spans.select("group_id", "member", "from_ms", "to_ms"), "group_id")
        .where(is_owner)
        .groupBy("group_id", "generation", "stable_ms", "member")
        .agg(F.count("*").alias("held"))
        .join(ends, ["group_id", "member"])
        .withColumn("is_there", F.col("ended_ms") > F.col("stable_ms"))
        .withColumn("rank", F.row_number().over(most_first))
    )


def _members(history: PreparedHistory, steps: DataFrame) -> DataFrame:
    """Count the members after each rebalance."""
    lives = history.lives.select("group_id", "member", "started_ms", "ended_ms")
    is_there = (F.col("started_ms") <= F.col("stable_ms")) & (
        F.coalesce("ended_ms", F.lit(history.facts.ended_ms + 1)) > F.col("stable_ms")
    )
    return (
        steps.join(lives, "group_id")
        .where(is_there)
        .groupBy("group_id", "generation")
        .agg(F.count_distinct("member").alias("members"))
    )
