"""Checks of who owns what: by the rules of each protocol, over time and in each generation.

Each check returns rows of a group, what it is about, the time, and a sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.prepared import LIFE, SHARED, holder, is_kind
from bench.histories.schema import FINAL
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from bench.histories.prepared import PreparedHistory


def found(rows: DataFrame, subject: str, at_ms: str | Column, text: str, *names: str) -> DataFrame:
    """Return violations; ``text`` has a ``%s`` for the value of each of the columns ``names``."""
    values = [F.coalesce(F.col(name).cast("string"), F.lit("nothing")) for name in names]
    at = F.col(at_ms) if isinstance(at_ms, str) else at_ms
    return rows.select(
        "group_id",
        F.col(subject).alias("subject"),
        at.alias("time_ms"),
        F.format_string(text, *values).alias("text"),
    )


def owned_at_once(history: PreparedHistory) -> DataFrame:
    """Find partitions that a member was given while another one still owned them.

    All protocols but share forbid that: eager members give everything up before they join,
    cooperative ones and those of KIP-848 before another member is given it. Owners count as long as
    the coordinator knew them: one that was expelled may not have heard of it.
    """
    before = (
        Window.partitionBy("group_id", "partition")
        .orderBy("from_ms", "until_ms")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    other = F.max(F.struct("until_ms", "holder")).over(before)
    twice = (
        history.spans.where(F.col("protocol") != SHARED)
        .where(F.col("until_ms") > F.col("from_ms"))
        .withColumn("other", other)
        .withColumn("overlap_ms", F.col("other.until_ms") - F.col("from_ms"))
        .where(F.col("overlap_ms") > history.facts.clock_error_ms)
        .where(F.col("other.holder") != F.col("holder"))
        .withColumn("other_holder", F.col("other.holder"))
    )
    text = "%s was given to %s while %s owned it for %s ms more"
    return found(
        twice, "partition", "from_ms", text, "partition", "holder", "other_holder", "overlap_ms"
    )


def owned_in_generation(history: PreparedHistory) -> DataFrame:
    """Find partitions that were assigned to several members in one generation or epoch."""
    twice = (
        history.milestones.where(is_kind(Kind.ASSIGNED) & (F.col("protocol") != SHARED))
        .select(
            "group_id", "generation", "time_ms", holder().alias("holder"),
            F.explode("assigned").alias("partition"),
        )
        .groupBy("group_id", "generation", "partition")
        .agg(
            F.min("holder").alias("one"), F.max("holder").alias("other"),
            F.max("time_ms").alias("time_ms"),
        )
        .where(F.col("one") != F.col("other"))
    )  # fmt: skip
    text = "%s was assigned in generation %s to %s and to %s"
    return found(twice, "partition", "time_ms", text, "partition", "generation", "one", "other")


def unassigned(history: PreparedHistory) -> DataFrame:
    """Find partitions that nobody owns in the end, though their group has members."""
    there = history.milestones.where(is_kind(FINAL))
    owned = there.select("group_id", F.explode("owned").alias("partition")).distinct()
    alive = there.select("group_id").distinct()
    all_ = history.groups.select("group_id", F.explode("owned").alias("partition"))
    free = all_.join(alive, "group_id", "left_semi").join(
        owned, ["group_id", "partition"], "left_anti"
    )
    end = F.lit(history.facts.ended_ms)
    return found(free, "partition", end, "%s has no owner in the end", "partition")


def static_moved(history: PreparedHistory) -> DataFrame:
    """Find static members that lost partitions in a restart, though no generation was new."""
    in_order = Window.partitionBy("group_id", "instance_id").orderBy("time_ms", "life", "sequence")
    lost = (
        history.milestones.where(is_kind(Kind.ASSIGNED) & F.col("instance_id").isNotNull())
        .withColumn("life_before", F.lag("life").over(in_order))
        .withColumn("generation_before", F.lag("generation").over(in_order))
        .withColumn("lost", F.array_except(F.lag("assigned").over(in_order), F.col("assigned")))
        .where(F.col("life_before") < F.col("life"))
        .where((F.col("generation_before") == F.col("generation")) & (F.size("lost") > 0))
        .withColumn("count", F.size("lost"))
        .withColumn("first", F.element_at("lost", 1))
    )
    text = "%s restarted in generation %s and lost %s partitions, such as %s"
    return found(lost, "member", "time_ms", text, "member", "generation", "count", "first")


def not_converged(history: PreparedHistory) -> DataFrame:
    """Find members that are not in the newest generation of their group in the end."""
    there = history.milestones.where(is_kind(FINAL))
    of_group = Window.partitionBy("group_id")
    behind = there.withColumn("newest", F.max("generation").over(of_group)).where(
        F.coalesce(F.col("generation"), F.lit(-1)) < F.col("newest")
    )
    text = "%s is in generation %s in the end, and its group in %s"
    return found(behind, "member", "time_ms", text, "member", "generation", "newest")


def backward(history: PreparedHistory) -> DataFrame:
    """Find members that were told an older generation, or epoch, after a newer one."""
    older = history.milestones.where(
        is_kind(Kind.JOINED, Kind.ASSIGNED, Kind.HEARTBEAT) & (F.col("generation") < F.col("told"))
    )
    text = "%s was in generation %s and then in %s"
    return found(older.dropDuplicates([*LIFE, "told"]), "member", "time_ms", text,
                 "member", "told", "generation")  # fmt: skip
