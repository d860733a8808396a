"""Checks of committed offsets: each partition of a group is a register that only grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.ownership import found
from bench.histories.prepared import asked_ms, is_kind
from bench.histories.schema import COMMITTING, FETCHED, FINAL
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bench.histories.prepared import PreparedHistory

REFUSALS: Final = (
    "illegal_generation", "unknown_member_id", "fenced_instance_id", "fenced_member_epoch",
    "stale_member_epoch", "rebalance_in_progress", "group_authorization_failed",
)  # fmt: skip
"""Errors that refuse every offset of a commit. After another error some may have been written."""


def lost_commits(history: PreparedHistory) -> DataFrame:
    """Find partitions whose acknowledged commit was not there when it was read later.

    That it was committed over soon after does not matter: every read counts. A commit of a
    partition that is not among the offsets that were read is lost, too.
    """
    older = _less_than(history, "acknowledged")
    columns = ("group_id", "partition", "at_ms", "acknowledged", "offset")
    text = "%s: %s was acknowledged, %s is there"
    both = older.select(*columns).unionByName(_gone(history).select(*columns))
    return found(both, "partition", "at_ms", text, "partition", "acknowledged", "offset")


def _less_than(history: PreparedHistory, known: str) -> DataFrame:
    """Return reads of less than was known; offsets are times, of members whose clocks differ."""
    return history.reads.where(F.col("offset") < F.col(known) - history.facts.clock_error_ms)


def _gone(history: PreparedHistory) -> DataFrame:
    """Return partitions that were committed, and of which a later read returned nothing."""
    commits = history.rows.where(is_kind(Kind.COMMITTED)).select(
        "group_id", "time_ms", F.explode("offsets").alias("partition", "offset")
    )
    firsts = (
        commits.groupBy("group_id", "partition")
        .agg(F.min(F.struct("time_ms", "offset")).alias("first"))
        .localCheckpoint()
    )
    of_group = firsts.groupBy("group_id").agg(
        F.collect_list(F.struct("first.time_ms", "partition")).alias("committed")
    )
    at_ms = asked_ms() - history.facts.clock_error_ms
    gone = (
        history.rows.where(is_kind(FETCHED) & F.col("member").isNull())  # it may be nothing
        .select("group_id", at_ms.alias("at_ms"), F.map_keys("offsets").alias("there"))
        .join(of_group, "group_id")
        .withColumn("before", F.filter("committed", lambda each: each["time_ms"] < F.col("at_ms")))
        .select(
            "group_id", "at_ms",
            F.explode(F.array_except("before.partition", "there")).alias("partition"),
        )
        .groupBy("group_id", "partition").agg(F.min("at_ms").alias("at_ms"))
    )  # fmt: skip
    return gone.join(firsts, ["group_id", "partition"]).select(
        "group_id", "partition", "at_ms", F.col("first.offset").alias("acknowledged"),
        F.lit(None).cast("bigint").alias("offset"),
    )  # fmt: skip


def rolled_back(history: PreparedHistory) -> DataFrame:
    """Find partitions whose committed offset was less than it had been when it was read before."""
    older = _less_than(history, "read_before")
    return found(older, "partition", "at_ms", "%s: %s was read, and later %s", "partition",
                 "read_before", "offset")  # fmt: skip


def never_read(history: PreparedHistory) -> DataFrame:
    """Find groups whose acknowledged commits were never read: nobody knows what became of them."""
    read = history.rows.where(is_kind(FETCHED)).select("group_id").distinct()
    unknown = (
        history.rows.where(is_kind(Kind.COMMITTED))
        .groupBy("group_id")
        .agg(F.count("*").alias("commits"), F.max("time_ms").alias("at_ms"))
        .join(read, "group_id", "left_anti")
    )
    text = "%s commits were acknowledged, and no committed offset was ever read"
    return found(unknown, "group_id", "at_ms", text, "commits")


def uncommitted(history: PreparedHistory) -> DataFrame:
    """Find offsets that were read, and that nobody had committed.

    An offset that was not acknowledged may have been written all the same, unless its commit was
    refused as a whole. What was there before the run is not known: only an offset that is more than
    one that was acknowledged or read before counts. Members that are there in the end may commit
    once more after their rows end: an offset that is as late as that does not count either.
    """
    if history.facts.missing_members:
        return found(history.reads.where(F.lit(False)), "partition", "at_ms", "")
    newer = history.once("newer-reads", _newer)
    is_open = is_kind(COMMITTING, Kind.COMMITTED) | (
        is_kind(Kind.COMMIT_FAILED) & ~F.coalesce("error", F.lit("")).isin(*REFUSALS)
    )
    written = (
        history.rows.where(is_open)
        .select("group_id", F.explode("offsets").alias("partition", "offset"))
        .join(F.broadcast(newer), ["group_id", "partition", "offset"], "left_semi")
        .distinct()
    )
    nobodys = newer.join(written, ["group_id", "partition", "offset"], "left_anti")
    text = "%s: %s was read after %s, and nobody had committed it"
    return found(nobodys, "partition", "at_ms", text, "partition", "offset", "known")


def _newer(history: PreparedHistory) -> DataFrame:
    """Return reads of more than was known, but for what members may have committed since."""
    last = (
        history.milestones.where(is_kind(FINAL)).groupBy("group_id")
        .agg(F.min("time_ms").alias("last_ms"))
    )  # fmt: skip
    until_ms = F.col("last_ms") - F.lit(history.facts.clock_error_ms)
    return (
        history.reads.withColumn("known", F.greatest("acknowledged", "read_before"))
        .where(F.col("offset") > F.col("known"))
        .join(last, "group_id", "left")
        .where(F.col("last_ms").isNull() | (F.col("offset") < until_ms))
    )
