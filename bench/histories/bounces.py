"""Restarts of static members: whether one of them cost the member its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.ownership import found
from bench.histories.prepared import EXPELLED, FOREVER_MS, LIFE, is_kind
from bench.histories.schema import CHANGE, ENDED, FAULT, STARTED
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bench.histories.prepared import PreparedHistory

RESTARTS: Final = ("restart", "crash")
"""Changes of a run that do nothing but restart members, as they are: any other may be a cause."""

KEPT_BY: Final = ("classic", "consumer")
"""Protocols of which rows say enough: a streams member that restarts may be another process."""


def static_moved(history: PreparedHistory) -> DataFrame:
    """Find members that lost partitions by the restart of a static one, and by nothing else.

    The restarted member, or others. Either no generation was new; or the one after that of the
    life before was, and since the members of that one had joined, no member came, went, was
    expelled or joined by itself, and nothing was done to the group but restarts of static members
    within their sessions.
    """
    own = _own_losses(history)
    same = own.where(F.col("generation_before") == F.col("generation"))
    text = "%s restarted in generation %s and lost %s partitions, such as %s"
    in_one = found(same, "member", "time_ms", text, "member", "generation", "count", "first")
    is_known = F.col("protocol").isin(*KEPT_BY)
    newer = _without_a_reason(history, own.where(is_known), _losses_of_others(history))
    text = (
        "%s restarted, generation %s was assigned though nothing else had happened, and it lost %s"
        " partitions, such as %s"
    )
    of_own = found(newer.where("is_back"), "member", "time_ms", text, "member", "generation",
                   "count", "first")  # fmt: skip
    text = (
        "%s lost partitions in generation %s, before which a static member had restarted, and"
        " nothing else had happened: %s, such as %s"
    )
    of_others = found(newer.where(~F.col("is_back")), "member", "time_ms", text, "member",
                      "generation", "count", "first")  # fmt: skip
    return in_one.unionByName(of_own).unionByName(of_others)


def _own_losses(history: PreparedHistory) -> DataFrame:
    """Return what static members lost from one of their lives to the next."""
    in_order = Window.partitionBy("group_id", "instance_id").orderBy("time_ms", "life", "sequence")
    lost = (
        history.milestones.where(is_kind(Kind.ASSIGNED) & F.col("instance_id").isNotNull())
        .withColumn("life_before", F.lag("life").over(in_order))
        .withColumn("generation_before", F.lag("generation").over(in_order))
        .withColumn("lost", F.array_except(F.lag("assigned").over(in_order), F.col("assigned")))
        .withColumn("protocol_before", F.lag("protocol").over(in_order))
        .where(F.col("life_before") < F.col("life"))
        .where(F.col("protocol_before") == F.col("protocol"))  # an offline migration begins anew
    )
    return _counted(lost)


def _losses_of_others(history: PreparedHistory) -> DataFrame:
    """Return what lives lost from one generation to the next that they were assigned in.

    With epochs a member is told first what to give up, still in its old epoch.
    """
    in_order = Window.partitionBy(*LIFE, "protocol").orderBy("generation")
    assigned = (
        history.milestones.where(is_kind(Kind.ASSIGNED) & F.col("protocol").isin(*KEPT_BY))
        .groupBy(*LIFE, "protocol", "generation")
        .agg(
            F.min("time_ms").alias("time_ms"),
            F.flatten(F.collect_list("assigned")).alias("had"),
            F.max_by("assigned", "sequence").alias("has"),
        )
    )
    lost = assigned.withColumn("generation_before", F.lag("generation").over(in_order)).withColumn(
        "lost", F.array_except(F.lag("had").over(in_order), F.col("has"))
    )
    return _counted(lost)


def _counted(lost: DataFrame) -> DataFrame:
    return (
        lost.where(F.size("lost") > 0)
        .withColumn("count", F.size("lost"))
        .withColumn("first", F.element_at("lost", 1))
        .select(*LIFE, "protocol", "generation", "generation_before", "time_ms", "count", "first")
    )


def _without_a_reason(history: PreparedHistory, own: DataFrame, of_others: DataFrame) -> DataFrame:
    """Return members that lost partitions in the next generation, for which there is no reason.

    ``is_back``: the member itself had restarted within its session; otherwise another one had.
    """
    told = history.milestones.where(is_kind(Kind.JOINED, Kind.ASSIGNED))
    in_order = Window.partitionBy("group_id").orderBy("generation")
    steps = (
        told.groupBy("group_id", "generation")
        .agg(
            F.min("time_ms").alias("joined_ms"),
            F.min(F.when(is_kind(Kind.ASSIGNED), F.col("time_ms"))).alias("first_ms"),
        )
        .where(F.col("first_ms").isNotNull())
        .withColumn("generation_before", F.lag("generation").over(in_order))
        .withColumn("after_ms", F.lag("joined_ms").over(in_order))
    )
    back = history.once("bounces", _lives).where("is_back")
    restarts = back.select("group_id", F.col("started_ms").alias("restarted_ms"))
    is_between = (F.col("restarted_ms") > F.col("after_ms")) & (
        F.col("restarted_ms") <= F.col("first_ms")
    )
    bounced = steps.join(restarts, "group_id").where(is_between).select(*steps.columns).distinct()
    keys = ["group_id", "generation", "generation_before"]
    moved = (
        own.join(back.select(*LIFE), list(LIFE), "left_semi")
        .join(steps, keys)
        .withColumn("is_back", F.lit(True))
        .unionByName(of_others.join(bounced, keys).withColumn("is_back", F.lit(False)))
        .localCheckpoint()
    )
    stirred = (
        moved.select("group_id", "generation", "after_ms", "first_ms")
        .distinct()
        .join(_stirs(history), "group_id")
        .where((F.col("from_ms") <= F.col("first_ms")) & (F.col("to_ms") > F.col("after_ms")))
        .select("group_id", "generation")
        .distinct()
    )
    return moved.join(stirred, ["group_id", "generation"], "left_anti")


def _lives(history: PreparedHistory) -> DataFrame:
    """Return lives with ``is_back``: a static member was surely back before its session ended.

    ``is_followed`` says the same of the life before.
    """
    of_member = Window.partitionBy("group_id", "instance_id").orderBy("life")
    expires_ms = F.col("sign_ms") + F.col("session_timeout_ms")
    is_static = F.col("instance_id").isNotNull()
    is_back = is_static & (
        F.coalesce("joined_ms", "started_ms") < F.lag(expires_ms).over(of_member)
    )
    lives = history.lives.withColumn("is_back", F.coalesce(is_back, F.lit(False)))
    followed = is_static & F.lead("is_back").over(of_member)
    return lives.withColumn("is_followed", F.coalesce(followed, F.lit(False)))


def _stirs(history: PreparedHistory) -> DataFrame:
    """Return what may cause a rebalance, but restarts of static members: from when, to when."""
    lives = history.once("bounces", _lives)
    session = F.col("session_timeout_ms").alias("session")
    known = lives.select(*LIFE, "is_back", "is_followed", session)
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    rows = history.milestones.withColumn("before", F.lag("kind").over(in_order)).join(
        known, list(LIFE)
    )
    is_again = is_kind(Kind.JOINED) & ~F.coalesce(
        F.col("before").isin(str(Kind.REBALANCING), STARTED), F.lit(False)
    )
    is_new = is_kind(STARTED, Kind.JOINED) & ~F.col("is_back") & (
        is_kind(STARTED) | (F.col("before") == STARTED)
    )  # fmt: skip
    has_left = is_kind(Kind.LEFT) & ~F.col("is_followed")
    odd = rows.where(is_kind(Kind.LOST, Kind.FAILED) | is_again | is_new | has_left)
    is_expelled = F.col("error").isin(*EXPELLED)
    since_ms = F.when(is_expelled, F.col("renewed_ms"))
    told = odd.select("group_id", F.coalesce(since_ms, "time_ms").alias("from_ms"),
                      F.col("time_ms").alias("to_ms"))  # fmt: skip
    session_ms = F.coalesce("session", F.lit(FOREVER_MS // 4))
    vanished = rows.where(is_kind(ENDED) & ~F.col("is_followed")).select(
        "group_id", F.col("time_ms").alias("from_ms"),
        (F.col("time_ms") + 2 * session_ms).alias("to_ms"),
    )  # fmt: skip
    expires_ms = F.col("sign_ms") + F.col("session_timeout_ms")
    silent = lives.where("is_there").where(expires_ms < history.facts.ended_ms).select(
        "group_id", expires_ms.alias("from_ms"), F.lit(FOREVER_MS).alias("to_ms")
    )  # fmt: skip
    done = history.rows.where(
        is_kind(FAULT) | (is_kind(CHANGE) & ~F.coalesce("cause", F.lit("")).isin(*RESTARTS))
    ).select("group_id", F.col("time_ms").alias("from_ms"), F.col("time_ms").alias("to_ms"))
    to_all = done.where(F.col("group_id").isNull()).drop("group_id")
    everywhere = history.groups.select("group_id").crossJoin(to_all)
    marks = done.where(F.col("group_id").isNotNull()).unionByName(everywhere)
    return told.unionByName(vanished).unionByName(silent).unionByName(marks)
