"""What a crowd's histories tell: PySpark analyses over the rows of :mod:`bench.load.driver`.

A member's ``name`` is what it keeps for life: its instance id if it is static, else its client id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.load.driver import FINAL
from protocol.members.history import MemberHistoryKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA: Final = (
    "group_id string, name string, is_static boolean, time_ms long, kind string, "
    "member_id string, generation int, partitions array<string>, error string, "
    "offsets map<string, long>"
)
COMMITTED_SCHEMA: Final = "group_id string, partition string, offset long"
MEMBER: Final = ("group_id", "name")


def kept(history: DataFrame, since_ms: int) -> DataFrame:
    """Compare what each member held at ``since_ms`` with what it held in the end.

    One row per member; a member that held nothing at ``since_ms`` has kept nothing.
    """
    latest = Window.partitionBy(*MEMBER).orderBy(F.desc("time_ms"))
    before = (
        history.where(
            (F.col("kind") == MemberHistoryKind.ASSIGNED.value) & (F.col("time_ms") <= since_ms)
        )
        .withColumn("age", F.row_number().over(latest))
        .where(F.col("age") == 1)
        .select(*MEMBER, *(F.col(name).alias(f"{name}_before") for name in _HELD))
    )
    after = history.where(F.col("kind") == FINAL).select(*MEMBER, "is_static", *_HELD)
    return after.join(before, list(MEMBER), "left").select(
        *MEMBER,
        "is_static",
        *(
            F.coalesce(F.col(name) == F.col(f"{name}_before"), F.lit(False)).alias(f"kept_{name}")
            for name in _HELD
        ),
    )


def rebalances(history: DataFrame, since_ms: int = 0) -> DataFrame:
    """Count each group's generations that members got into after ``since_ms``."""
    got_in = (F.col("kind") == MemberHistoryKind.ASSIGNED.value) & (F.col("time_ms") > since_ms)
    return history.groupBy("group_id").agg(
        F.count_distinct(F.when(got_in, F.col("generation"))).alias("rebalances")
    )


def heartbeat_gaps(history: DataFrame) -> DataFrame:
    """Return each member's longest time between two signs that its coordinator knows it.

    Signs are its assignment and every heartbeat that was answered without error; the load's end
    ends the last gap.
    """
    signs = history.where(
        F.col("kind").isin(
            MemberHistoryKind.ASSIGNED.value, MemberHistoryKind.HEARTBEAT.value, FINAL
        )
    )
    in_order = Window.partitionBy(*MEMBER).orderBy("time_ms")
    gap = F.col("time_ms") - F.lag("time_ms").over(in_order)
    return (
        signs.withColumn("gap_ms", gap)
        .groupBy(*MEMBER, "is_static")
        .agg(F.max("gap_ms").alias("longest_gap_ms"))
    )


def owned_twice(history: DataFrame) -> DataFrame:
    """Find partitions that two members were assigned in one generation: there must be none."""
    owners = history.where(F.col("kind") == MemberHistoryKind.ASSIGNED.value).select(
        "group_id", "generation", "name", F.explode("partitions").alias("partition")
    )
    return (
        owners.groupBy("group_id", "generation", "partition")
        .agg(F.sort_array(F.collect_set("name")).alias("owners"))
        .where(F.size("owners") > 1)
    )


def lost_commits(history: DataFrame, committed: DataFrame) -> DataFrame:
    """Find acknowledged offsets that are gone: there must be none.

    ``committed`` (see ``COMMITTED_SCHEMA``) is what the coordinators answer after the load. The
    offsets of a partition only grow, so one below the last acknowledged is a commit lost.
    """
    acknowledged = (
        history.where(F.col("kind") == MemberHistoryKind.COMMITTED.value)
        .select("group_id", F.explode("offsets").alias("partition", "acknowledged"))
        .groupBy("group_id", "partition")
        .agg(F.max("acknowledged").alias("acknowledged"))
    )
    return acknowledged.join(committed, ["group_id", "partition"], "left").where(
        F.col("offset").isNull() | (F.col("offset") < F.col("acknowledged"))
    )


_HELD: Final = ("member_id", "generation", "partitions")
"""What a member holds, and is asked whether it kept."""
