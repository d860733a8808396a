"""Checks of committed offsets: each partition of a group is a register that only grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.ownership import found
from bench.histories.prepared import is_kind
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

    A commit of a partition that is not among the offsets that were read in the end is lost, too.
    """
    older = history.reads.where(F.col("offset") < F.col("acknowledged"))
    read = history.rows.where(is_kind(FETCHED) & F.col("member").isNull())
    there = read.select("group_id", F.explode(F.map_keys("offsets")).alias("partition"))
    acknowledged = history.rows.where(is_kind(Kind.COMMITTED)).select(
        "group_id", "time_ms", F.explode("offsets").alias("partition", "acknowledged")
    )
    was_read = read.select("group_id").distinct()  # what was read may be nothing
    gone = (
        acknowledged.groupBy("group_id", "partition")
        .agg(F.max("acknowledged").alias("acknowledged"), F.max("time_ms").alias("at_ms"))
        .join(was_read, "group_id", "left_semi")
        .join(there, ["group_id", "partition"], "left_anti")
        .withColumn("offset", F.lit(None).cast("bigint"))
    )
    columns = ("group_id", "partition", "at_ms", "acknowledged", "offset")
    text = "%s: %s was acknowledged, %s is there"
    return found(older.select(*columns).unionByName(gone.select(*columns)), "partition", "at_ms",
                 text, "partition", "acknowledged", "offset")  # fmt: skip


def rolled_back(history: PreparedHistory) -> DataFrame:
    """Find partitions whose committed offset was less than it had been when it was read before."""
    older = history.reads.where(F.col("offset") < F.col("read_before"))
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
