"""Analyse a crowd's histories: PySpark jobs over the rows of :mod:`bench.load.driver`.

A member's ``name`` is its permanent name: its instance id if it is static, else its client id. What
a history must never show, and what a rebalance is, is defined in :mod:`protocol.members.promises`:
here its functions are mapped over the groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.load.driver import FINAL
from protocol.members import promises
from protocol.members.history import MemberHistoryKind
from protocol.members.promises import Assigned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark import RDD
    from pyspark.sql import DataFrame

SCHEMA: Final = (
    "group_id string, name string, is_static boolean, time_ms long, kind string, "
    "member_id string, generation int, partitions array<string>, error string, "
    "offsets map<string, long>"
)
COMMITTED_SCHEMA: Final = "group_id string, partition string, offset long"
OWNED_TWICE_SCHEMA: Final = (
    "group_id string, generation int, partition string, owners array<string>"
)
LOST_COMMIT_SCHEMA: Final = "group_id string, partition string, acknowledged long, offset long"
MEMBER: Final = ("group_id", "name")


def kept(history: DataFrame, since_ms: int) -> DataFrame:
    """Compare what each member held at ``since_ms`` with what it held at the end.

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
    """Count each group's rebalances since a moment (:func:`protocol.members.promises.rebalances`).

    Groups without any assignment have no row.
    """
    found = _assignments(history).mapValues(lambda each: promises.rebalances(each, since_ms))
    return history.sparkSession.createDataFrame(found, "group_id string, rebalances int")


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
    found = _assignments(history).flatMap(
        lambda group: [
            (group[0], twice.generation, twice.partition, list(twice.owners))
            for twice in promises.owned_twice(group[1])
        ]
    )
    return history.sparkSession.createDataFrame(found, OWNED_TWICE_SCHEMA)


def lost_commits(history: DataFrame, committed: DataFrame) -> DataFrame:
    """Find acknowledged offsets that were lost: there must be none.

    ``committed`` (see ``COMMITTED_SCHEMA``) is what the coordinators return after the load.
    """
    acknowledged = (
        history.where(F.col("kind") == MemberHistoryKind.COMMITTED.value)
        .select("group_id", F.explode("offsets"))
        .rdd.map(lambda row: (row[0], (row[1], row[2])))
    )
    there = committed.rdd.map(lambda row: (row[0], (row[1], row[2])))
    found = acknowledged.cogroup(there).flatMap(
        lambda group: [
            (group[0], *lost) for lost in promises.lost_commits(group[1][0], dict(group[1][1]))
        ]
    )
    return history.sparkSession.createDataFrame(found, LOST_COMMIT_SCHEMA)


def _assignments(history: DataFrame) -> RDD[tuple[str, Iterable[Assigned[str]]]]:
    """Return what members were assigned, by group."""
    return (
        history.where(F.col("kind") == MemberHistoryKind.ASSIGNED.value)
        .select("group_id", "time_ms", "generation", "name", "partitions")
        .rdd.map(lambda row: (row[0], Assigned(*row[1:])))
        .groupByKey()
    )


_HELD: Final = ("member_id", "generation", "partitions")
"""The state of a member, to check whether it kept it."""
