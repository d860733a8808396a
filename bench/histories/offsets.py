"""Checks of committed offsets: each partition of a group is a register that only grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.ownership import found
from bench.histories.prepared import is_kind
from bench.histories.schema import FETCHED
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bench.histories.prepared import PreparedHistory


def lost_commits(history: PreparedHistory) -> DataFrame:
    """Find partitions whose acknowledged commit was not there when it was read later.

    A commit of a partition that is not among the offsets that were read in the end is lost, too.
    """
    older = history.reads.where(F.col("offset") < F.col("acknowledged"))
    in_the_end = is_kind(FETCHED) & F.col("member").isNull()
    there = history.rows.where(in_the_end).select(
        "group_id", F.explode(F.map_keys("offsets")).alias("partition")
    )
    acknowledged = history.rows.where(is_kind(Kind.COMMITTED)).select(
        "group_id", "time_ms", F.explode("offsets").alias("partition", "acknowledged")
    )
    was_read = there.select("group_id").distinct()
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
