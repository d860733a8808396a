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
    """Find partitions that were assigned to several members in one generation or epoch.

    These begin again in a group that was empty, as after an offline migration there and back.
    """
    twice = (
        history.milestones.where(is_kind(Kind.ASSIGNED) & (F.col("protocol") != SHARED))
        .join(_blocks(history), list(LIFE))
        .select(
            "group_id", "block", "generation", "time_ms", holder().alias("holder"),
            F.explode("assigned").alias("partition"),
        )
        .groupBy("group_id", "block", "generation", "partition")
        .agg(
            F.min("holder").alias("one"), F.max("holder").alias("other"),
            F.max("time_ms").alias("time_ms"),
        )
        .where(F.col("one") != F.col("other"))
    )  # fmt: skip
    text = "%s was assigned in generation %s to %s and to %s"
    return found(twice, "partition", "time_ms", text, "partition", "generation", "one", "other")


def _blocks(history: PreparedHistory) -> DataFrame:
    """Return the lives with the number of their ``block``: between two the group was empty.

    A life counts as a member until its session is over, also if it left.
    """
    ended_ms = F.coalesce("ended_ms", "sign_ms", "started_ms")
    known_ms = F.when(F.col("is_there"), F.lit(history.facts.ended_ms)).otherwise(
        ended_ms + F.coalesce("session_timeout_ms", F.lit(0))
    )
    in_order = Window.partitionBy("group_id").orderBy("started_ms", "known_ms")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    was_empty = F.col("started_ms") > F.max("known_ms").over(before) + history.facts.clock_error_ms
    return (
        history.lives.withColumn("known_ms", known_ms)
        .withColumn("begins", F.coalesce(was_empty, F.lit(False)).cast("int"))
        .select(*LIFE, F.sum("begins").over(so_far).alias("block"))
    )


def unassigned(history: PreparedHistory) -> DataFrame:
    """Find partitions that nobody owns in the end, though their group has members."""
    free = history.once("free", _free).where(~F.col("waits"))
    end = F.lit(history.facts.ended_ms)
    return found(free, "partition", end, "%s has no owner in the end", "partition")


def ended_early(history: PreparedHistory) -> DataFrame:
    """Find the same in groups in which the session of a member that vanished may still last.

    The coordinator holds partitions for that member, or the whole group waits for it.
    """
    free = history.once("free", _free).where("waits")
    end = F.lit(history.facts.ended_ms)
    text = "%s has no owner in the end, and the session of a member that vanished was not over"
    return found(free, "partition", end, text, "partition")


def _free(history: PreparedHistory) -> DataFrame:
    """Return the partitions without an owner in the end, of groups with members.

    ``waits``: the session of a member of the group that vanished may still last.
    """
    there = history.milestones.where(is_kind(FINAL))
    owned = there.select("group_id", F.explode("owned").alias("partition")).distinct()
    alive = there.groupBy("group_id").agg(F.max("time_ms").alias("seen_ms"))
    ends = history.milestones.where(is_kind(Kind.LEFT, Kind.FAILED))
    over = ends.where(is_kind(Kind.FAILED) | F.col("instance_id").isNull()).select(*LIFE)
    expires_ms = F.col("ended_ms") + F.col("session_timeout_ms")
    waits = (
        history.lives.where(~F.col("is_there") & F.col("ended_ms").isNotNull())
        .join(over.distinct(), list(LIFE), "left_anti")
        .join(alive, "group_id")
        .where(expires_ms.isNull() | (expires_ms > F.col("seen_ms")))
        .select("group_id", F.lit(True).alias("waits"))
        .distinct()
    )
    return (
        history.groups.select("group_id", F.explode("owned").alias("partition"))
        .join(alive, "group_id", "left_semi")
        .join(owned, ["group_id", "partition"], "left_anti")
        .join(waits, "group_id", "left")
        .withColumn("waits", F.coalesce("waits", F.lit(False)))
    )


def not_converged(history: PreparedHistory) -> DataFrame:
    """Find members that are not in the newest generation of their group in the end."""
    there = history.milestones.where(is_kind(FINAL))
    of_group = Window.partitionBy("group_id")
    behind = there.withColumn("newest", F.max("generation").over(of_group)).where(
        F.coalesce(F.col("generation"), F.lit(-1)) < F.col("newest")
    )
    text = "%s is in generation %s in the end, and its group in %s"
    return found(behind, "member", "time_ms", text, "member", "generation", "newest")


def foreign(history: PreparedHistory) -> DataFrame:
    """Find partitions that were assigned, and are not of a topic that the group subscribes to."""
    own = history.groups.groupBy("group_id").agg(
        F.flatten(F.collect_list(F.concat("owned", F.coalesce("others", F.array())))).alias("own")
    )
    assigned = history.milestones.where(is_kind(Kind.ASSIGNED)).join(own, "group_id")
    strangers = F.array_except("assigned", "own")
    others = assigned.where(F.size(strangers) > 0).withColumn("partition", F.explode(strangers))
    text = "%s was assigned to %s, and no member subscribes to it"
    return found(others.dropDuplicates([*LIFE, "partition"]), "partition", "time_ms", text,
                 "partition", "member")  # fmt: skip


def backward(history: PreparedHistory) -> DataFrame:
    """Find members that were told an older generation, or epoch, after a newer one."""
    older = history.milestones.where(
        is_kind(Kind.JOINED, Kind.ASSIGNED, Kind.HEARTBEAT) & (F.col("generation") < F.col("told"))
    )
    text = "%s was in generation %s and then in %s"
    return found(older.dropDuplicates([*LIFE, "told"]), "member", "time_ms", text,
                 "member", "told", "generation")  # fmt: skip
