"""What several checks need of a history, computed once.

The rows of each life are put in order once, for all checks. Heartbeats and commits, which are
nearly all rows, are not needed after that: the other rows, the *milestones*, say what was before
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.schema import COMMITTING, ENDED, FETCHED, FINAL, GROUP, STARTED
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from bench.histories.store import RunFacts

LIFE: Final = ("group_id", "member", "life")

TOLD: Final = (Kind.JOINED, Kind.ASSIGNED, Kind.HEARTBEAT)
"""Answers with the generation, or the epoch, of the member."""

SIGNS: Final = (*TOLD, Kind.REBALANCING, Kind.COMMITTED)
"""Answers that show that the coordinator knew the member when it got the request."""

HEARD: Final = (Kind.ASSIGNED, Kind.HEARTBEAT)
"""What keeps a member in its group."""

ROUTINE: Final = (
    Kind.HEARTBEAT, Kind.COMMITTED, Kind.COMMIT_FAILED, Kind.RETRIED, Kind.DISCONNECTED, COMMITTING,
)  # fmt: skip
"""Kinds of rows that are no milestones."""

_READ: Final = "read"

FENCED: Final = "fenced_instance_id"
UNRELEASED: Final = "unreleased_instance_id"
EXPELLED: Final = ("unknown_member_id", "fenced_member_epoch")
"""Errors that tell a member that its group goes on without it."""

CLASSIC: Final = "classic"
SHARED: Final = "share"
"""The protocol whose members may share partitions."""

FOREVER_MS: Final = 1 << 62
"""What has no end ends then."""


def is_kind(*kinds: str) -> Column:
    """Return whether a row is of one of these kinds."""
    return F.col("kind").isin(*map(str, kinds))


def _renews() -> Column:
    """Whether an answer shows that the member's session began again with its request.

    A commit renews the session of a member of a classic group only, as in Kafka.
    """
    is_classic = F.col("protocol") == CLASSIC
    return is_kind(*TOLD, Kind.REBALANCING) | (is_kind(Kind.COMMITTED) & is_classic)


def _is_written() -> Column:
    """Whether the coordinator had written the generation of a row before it told it.

    That of a classic group is written with its assignments, here and in Kafka: after a failover
    between JoinGroup and SyncGroup it begins again.
    """
    is_classic = F.col("protocol") == CLASSIC
    return is_kind(Kind.ASSIGNED) | (is_kind(*TOLD) & ~is_classic)


def asked_ms() -> Column:
    """Return when the request was sent; without a request, when the row happened."""
    return F.coalesce("asked_ms", "time_ms")


def holder() -> Column:
    """Return by whom a partition is owned: the instance id, or one life of a dynamic member."""
    return F.coalesce("instance_id", F.concat_ws("#", "member", "life"))


@dataclass(frozen=True)
class PreparedHistory:
    """A run's rows, and what is computed from them once.

    What is kept is cut off from how it was computed: plans that contain each other grow too large.
    """

    rows: DataFrame
    facts: RunFacts
    _kept: dict[str, DataFrame] = field(default_factory=dict)

    def once(self, name: str, compute: Callable[[PreparedHistory], DataFrame]) -> DataFrame:
        """Return what ``compute`` returns for this history; compute it only the first time."""
        if name not in self._kept:
            self._kept[name] = compute(self).localCheckpoint()
        return self._kept[name]

    @property
    def milestones(self) -> DataFrame:
        """:func:`_milestones` of this history."""
        return self.once("milestones", _milestones)

    @property
    def lives(self) -> DataFrame:
        """:func:`_lives` of this history."""
        return self.once("lives", _lives)

    @property
    def spans(self) -> DataFrame:
        """:func:`_spans` of this history."""
        return self.once("spans", _spans)

    @property
    def reads(self) -> DataFrame:
        """:func:`_reads` of this history."""
        return self.once("reads", _reads)

    @property
    def groups(self) -> DataFrame:
        """Each group with its protocol and all its partitions."""
        return self.once("groups", _groups)


def _milestones(history: PreparedHistory) -> DataFrame:
    """All rows of lives but heartbeats, commits and their failures, with what was before.

    ``sign_ms``: when the last request was sent up to this row whose answer shows that the
    coordinator knew the member; ``renewed_ms``: which renewed its session. ``gap_ms``: the
    longest time up to this row between two heartbeats since the change. ``told``: the greatest
    written generation before this row.
    ``was_fenced``: as which member id the member was fenced before. A routine row that
    contradicts one of these, tells a new epoch, or changes what the member owns, is among the
    milestones, too.
    """
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    heard = F.when(is_kind(*HEARD), F.col("time_ms"))
    gap = F.when(
        is_kind(*HEARD, FINAL) & (F.col("time_ms") >= history.facts.changed_ms),
        F.col("time_ms") - F.max(heard).over(before),
    )
    fenced = F.when(F.col("error") == FENCED, F.col("member_id"))
    found = (
        history.rows.where(F.col("member").isNotNull())
        .drop("offsets")
        .withColumn("sign_ms", F.max(F.when(is_kind(*SIGNS), F.col("asked_ms"))).over(so_far))
        .withColumn("renewed_ms", F.max(F.when(_renews(), F.col("asked_ms"))).over(so_far))
        .withColumn("gap", gap)
        .withColumn("told", F.max(F.when(_is_written(), F.col("generation"))).over(before))
        .withColumn("was_fenced", F.max(fenced).over(before))
        .withColumn("gap_ms", F.max("gap").over(so_far))
        .drop("gap")
    )
    is_odd = (is_kind(*TOLD) & (F.col("generation") < F.col("told"))) | (
        is_kind(*SIGNS) & (F.col("was_fenced") == F.col("member_id"))
    )
    is_newer = is_kind(Kind.HEARTBEAT) & (F.col("protocol") != "classic") & (
        F.col("generation") > F.col("told")
    )  # fmt: skip
    is_news = F.col("owned").isNotNull() | F.coalesce(is_newer, F.lit(False))
    return found.where(~is_kind(*ROUTINE) | is_news | is_odd)


def _lives(history: PreparedHistory) -> DataFrame:
    """One row for each life: its name, when it started, joined and ended."""

    def when(*kinds: str) -> Column:
        return F.when(is_kind(*kinds), F.col("time_ms"))

    joined = F.when(is_kind(Kind.JOINED), asked_ms())
    return history.milestones.groupBy(*LIFE, "protocol", "instance_id").agg(
        F.coalesce(F.min(when(STARTED)), F.min(asked_ms())).alias("started_ms"),
        F.max("session_timeout_ms").alias("session_timeout_ms"),
        F.max(joined).alias("joined_asked_ms"),
        F.max(when(Kind.JOINED)).alias("joined_ms"),
        F.min(when(ENDED, Kind.LEFT, Kind.FAILED)).alias("ended_ms"),
        F.max(is_kind(FINAL)).alias("is_there"),
        F.max("sign_ms").alias("sign_ms"),
        F.max("gap_ms").alias("gap_ms"),
    )


def _spans(history: PreparedHistory) -> DataFrame:
    """Who owned which partition when: from ``from_ms`` on, and certainly until ``until_ms``.

    The coordinator knew the owner as such until then: it answered a request that was sent at
    ``until_ms``. ``to_ms`` is when the owner gave the partition up or was told that it lost it.
    """
    in_order = Window.partitionBy(*LIFE).orderBy("sequence")
    rows = (
        history.milestones.where(F.col("owned").isNotNull() & ~is_kind(FINAL))
        .select(
            *LIFE, "protocol", "sequence", "generation", holder().alias("holder"), "owned",
            F.col("time_ms").alias("from_ms"),
            F.when(is_kind(Kind.JOINED), asked_ms()).otherwise(F.col("time_ms")).alias("at_ms"),
            "sign_ms",
        )
        .withColumn("next_sign_ms", F.lead("sign_ms").over(in_order))
        .withColumn("to_ms", F.lead("at_ms").over(in_order))
    )  # fmt: skip
    last = history.lives.select(
        *LIFE, F.col("sign_ms").alias("last_sign_ms"), "ended_ms", "is_there"
    )
    return (
        rows.join(last, list(LIFE))
        .select(
            *LIFE, "protocol", "generation", "holder", "from_ms", "sequence",
            F.coalesce("next_sign_ms", "last_sign_ms").alias("until_ms"),
            F.coalesce("to_ms", "ended_ms", F.lit(history.facts.ended_ms)).alias("to_ms"),
            F.explode("owned").alias("partition"),
        )
    )  # fmt: skip


def _groups(history: PreparedHistory) -> DataFrame:
    """Each group with its protocol, all its partitions, and others that some members have."""
    others = F.col("assigned").alias("others")
    return history.rows.where(is_kind(GROUP)).select("group_id", "protocol", "owned", others)


def _reads(history: PreparedHistory) -> DataFrame:
    """Each read of a partition's committed offset, with what was known when it was sent.

    ``acknowledged``: the greatest offset whose commit was acknowledged before; ``read_before``:
    the greatest offset that was read before. Where clocks differ, only what is surely before
    counts.
    """
    rows = history.rows.where(is_kind(Kind.COMMITTED, FETCHED))
    answers = rows.select("group_id", "kind", F.col("time_ms").alias("at_ms"), F.explode("offsets"))
    reads = rows.where(is_kind(FETCHED)).select(
        "group_id", F.lit(_READ).alias("kind"),
        (asked_ms() - history.facts.clock_error_ms).alias("at_ms"), F.explode("offsets"),
    )  # fmt: skip
    before = (
        Window.partitionBy("group_id", "key")
        .orderBy("at_ms")
        .rangeBetween(Window.unboundedPreceding, -1)
    )
    offset = F.col("value")
    acknowledged = F.when(is_kind(Kind.COMMITTED), offset)
    return (
        answers.union(reads)
        .withColumn("acknowledged", F.max(acknowledged).over(before))
        .withColumn("read_before", F.max(F.when(is_kind(FETCHED), offset)).over(before))
        .where(is_kind(_READ))
        .select(
            "group_id", "at_ms", F.col("key").alias("partition"), offset.alias("offset"),
            "acknowledged", "read_before",
        )
    )  # fmt: skip
