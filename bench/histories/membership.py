"""Checks of who is a member: who was fenced or expelled, and whether rightly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.episodes import RESTARTED, rebalances
from bench.histories.ownership import found
from bench.histories.prepared import CLASSIC, EXPELLED, LIFE, SIGNS, asked_ms, is_kind
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bench.histories.prepared import PreparedHistory


def came_back(history: PreparedHistory) -> DataFrame:
    """Find members that were fenced, and were served again under the same member id."""
    served = history.milestones.where(
        is_kind(*SIGNS) & (F.col("was_fenced") == F.col("member_id"))
    ).dropDuplicates(list(LIFE))
    text = "%s was served as %s after it had been fenced"
    return found(served, "member", "time_ms", text, "member", "member_id")


def restart_rebalanced(history: PreparedHistory) -> DataFrame:
    """Find rebalances whose only cause is that a static member came back within its session."""
    back = rebalances(history).where(F.col("cause") == RESTARTED)
    text = "generation %s was assigned after a restart, and nothing else had happened"
    return found(back, "cause", "began_ms", text, "generation")


def expelled_early(history: PreparedHistory) -> DataFrame:
    """Find members that were expelled before their session timeout was over.

    Those that had been asked to join again are left out, and members of classic groups between
    their join and their assignment: their rebalance timeout may be shorter, and is not known.
    """
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    waits = (F.col("kind_before") == str(Kind.REBALANCING)) | (
        (F.col("kind_before") == str(Kind.JOINED)) & (F.col("protocol") == CLASSIC)
    )
    early = (
        history.milestones.withColumn("kind_before", F.lag("kind").over(in_order))
        .where(is_kind(Kind.LOST, Kind.FAILED) & F.col("error").isin(*EXPELLED))
        .where(~waits)
        .join(history.lives.select(*LIFE, F.col("session_timeout_ms").alias("session")), list(LIFE))
        .withColumn("after_ms", F.col("time_ms") - F.col("renewed_ms"))
        .where(F.col("after_ms") < F.col("session"))
    )
    text = "%s was expelled (%s) %s ms after a request that renewed its session, which lasts %s ms"
    return found(early, "member", asked_ms(), text, "member", "error", "after_ms", "session")
