"""Clean histories of any size, made by Spark: for tests of the checks, and to measure them.

The groups are alike, and of each protocol in turn. In each, a member freezes and is expelled, and
comes back; another one leaves; a static one restarts; and a zombie of a static one is fenced.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.schema import (
    CHANGE,
    COLUMNS,
    ENDED,
    FAULT,
    FETCHED,
    FINAL,
    GROUP,
    SCHEMA,
    STARTED,
    HistoryRow,
)
from bench.histories.store import RunFacts
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

TICK_MS: Final = 1_000
"""Members heartbeat once a tick, and commit every second tick."""

READ_TICKS: Final = 20
"""So often somebody reads the committed offsets of each group, and in the end."""

SESSION_MS: Final = 3 * TICK_MS
PROTOCOLS: Final = ("classic", "consumer", "share", "streams")
HAS_STATIC: Final = frozenset({"classic", "consumer"})
TICKS_MIN: Final = 24
GROUPS_MIN: Final = 64
"""So many groups have room for every planted fault, and for one group of each protocol without."""
TAKER, RESTARTER, LEAVER, TWIN, SLEEPER, HEIR = range(6)
"""The members with a part of their own; the others are steady."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryShape:
    """How large a history is: ``groups`` of ``members``, each for ``ticks``."""

    groups: int
    members: int = 8
    ticks: int = TICKS_MIN

    @classmethod
    def of_rows(cls, rows: int) -> HistoryShape:
        """Return the shape of a history of about this many rows, or of the smallest one."""
        members, groups = 25, max(GROUPS_MIN, min(400, rows // 50_000 // 4 * 4))
        return cls(groups=groups, members=members,
                   ticks=max(TICKS_MIN, rows * 10 // (groups * members * 13)))  # fmt: skip

    @property
    def frozen(self) -> int:
        """The last tick before the sleeper freezes."""
        return self.ticks // 4

    @property
    def expelled(self) -> int:
        """The tick in which it is expelled."""
        return self.frozen + 4

    @property
    def back(self) -> int:
        """The tick in which it is back."""
        return self.expelled + 2

    @property
    def left(self) -> int:
        """The tick in which the leaver leaves: an even one, as members commit in it."""
        return (max(self.ticks // 2, self.back + 1) + 1) // 2 * 2

    @property
    def doubled(self) -> int:
        """The tick in which the twin appears."""
        return self.left + 2

    @property
    def restarted(self) -> int:
        """The tick in which the static member restarts."""
        return self.left + 4

    def facts(self, run_id: str = "made") -> RunFacts:
        """Return the facts of the run."""
        return RunFacts(
            run_id=run_id,
            what=f"a made history of {self.groups} groups",
            changed_ms=self.frozen * TICK_MS,
            ended_ms=(self.ticks + 1) * TICK_MS,
        )


def made(session: SparkSession, shape: HistoryShape) -> DataFrame:
    """Return a clean history."""
    fault = HistoryRow(FAULT, shape.facts().changed_ms, cause="a node is killed")
    told = session.createDataFrame([fault], SCHEMA)
    return told.unionByName(made_groups(session, shape, range(shape.groups)))


def made_groups(session: SparkSession, shape: HistoryShape, numbers: Sequence[int]) -> DataFrame:
    """Return the history of some groups: those of a protocol have numbers four apart."""
    groups = session.range(shape.groups).select(F.col("id").alias("number"))
    if len(numbers) < shape.groups:
        groups = groups.where(F.col("number").isin(*numbers))
    templates = [row for each in PROTOCOLS for row in _GroupTemplate(shape, each).rows()]
    number = F.col("number")
    placed = groups.select(
        F.concat(F.lit("made-"), number.cast("string")).alias("group_id"),
        F.element_at(F.array(*map(F.lit, PROTOCOLS)), (number % 4 + 1).cast("int")).alias(
            "protocol"
        ),
    )
    milestones = session.createDataFrame(templates, SCHEMA).drop("group_id")
    told = placed.join(F.broadcast(milestones), "protocol").select(*COLUMNS)
    return told.unionByName(_routine(session, placed, shape))


def _partitions(number: int) -> list[str]:
    return [f"t-{2 * number}", f"t-{2 * number + 1}"]


class _GroupTemplate:
    """The rows of one group of a protocol, but heartbeats and commits."""

    def __init__(self, shape: HistoryShape, protocol: str) -> None:
        self.shape = shape
        self.protocol = protocol
        self.is_classic = protocol == "classic"
        self.has_static = protocol in HAS_STATIC

    def rows(self) -> Iterator[HistoryRow]:
        shape, end_ms = self.shape, (self.shape.ticks + 1) * TICK_MS
        every = list(chain.from_iterable(map(_partitions, range(shape.members))))
        yield HistoryRow(GROUP, 0, protocol=self.protocol, owned=every)
        yield HistoryRow(CHANGE, shape.left * TICK_MS, protocol=self.protocol, cause="scale")
        for number in range(shape.members):
            yield from self._member(number)
        if self.protocol != "share":
            for at_ms in (*range(READ_TICKS * TICK_MS, end_ms, READ_TICKS * TICK_MS), end_ms):
                offsets = {
                    partition: self._committed_ms(number, at_ms)
                    for number in range(shape.members)
                    for partition in _partitions(number)
                }
                yield HistoryRow(FETCHED, at_ms, asked_ms=at_ms - 3, protocol=self.protocol,
                                 offsets=offsets)  # fmt: skip

    def _committed_ms(self, number: int, at_ms: int) -> int:
        """Return when the partitions of a member were last committed, by whoever had them then."""
        shape, tick = self.shape, (at_ms - 1) // TICK_MS // 2 * 2
        if number == LEAVER and tick > shape.left:
            number = TAKER
        elif number == SLEEPER and shape.frozen < tick <= shape.expelled:
            tick = shape.frozen // 2 * 2
        elif number == SLEEPER and shape.expelled < tick <= shape.back:
            number = HEIR
        return tick * TICK_MS + 500 + number

    def owned(self, number: int, generation: int) -> list[str]:
        """Return what a member owns in a generation."""
        mine = _partitions(number)
        if generation == 2 and number == HEIR:
            mine += _partitions(SLEEPER)
        if generation == 4 and number == TAKER:
            mine += _partitions(LEAVER)
        if self.protocol == "share":
            mine.append(f"t-{(2 * number + 2) % (2 * self.shape.members)}")
        return sorted(mine)

    def _member(self, number: int) -> Iterator[HistoryRow]:
        shape = self.shape
        yield self._row(number, STARTED, number, session_timeout_ms=SESSION_MS)
        yield from self._joins(number, 100 + number, 1)
        for generation, tick in ((2, shape.expelled), (3, shape.back), (4, shape.left)):
            yield from self._rebalance(number, tick, generation)
        if number == TWIN and self.is_classic:
            at_ms = shape.doubled * TICK_MS + 600
            yield self._row(number, STARTED, at_ms, life=2, session_timeout_ms=SESSION_MS)
            yield from self._joins(number, at_ms + 50, 4, life=2)
            yield self._row(number, Kind.FAILED, at_ms + 400 + number, owned=[],
                            error="fenced_instance_id", asked_ms=at_ms + 399 + number)  # fmt: skip
        if number == RESTARTER and self.has_static:
            at_ms = shape.restarted * TICK_MS + 600
            yield self._row(number, ENDED, at_ms, owned=[], revoked=self.owned(number, 4))
            yield self._row(number, STARTED, at_ms + 50, life=2, session_timeout_ms=SESSION_MS)
            yield from self._joins(number, at_ms + 100, 4, life=2)
        if number != LEAVER:
            yield self._row(number, FINAL, (shape.ticks + 1) * TICK_MS - 50 + number % 50,
                            life=self._last_life(number), generation=4,
                            owned=self.owned(number, 4))  # fmt: skip

    def _rebalance(self, number: int, tick: int, generation: int) -> Iterator[HistoryRow]:
        at_ms, before = tick * TICK_MS, self.owned(number, generation - 1)
        if number == SLEEPER and generation == 2:
            return
        if number == SLEEPER and generation == 3:
            yield self._row(number, Kind.LOST, at_ms + 600, owned=[], revoked=before,
                            error="unknown_member_id", asked_ms=at_ms + 599,
                            generation=-1 if self.is_classic else 0)  # fmt: skip
            yield from self._joins(number, at_ms + 700, generation)
            return
        if number == LEAVER and generation == 4:
            yield self._row(number, Kind.LEFT, at_ms + 590, owned=[], revoked=before,
                            generation=3, asked_ms=at_ms + 580)  # fmt: skip
            return
        if self.is_classic:
            yield self._row(number, Kind.REBALANCING, at_ms + 600 + number, owned=[],
                            revoked=before, generation=generation - 1,
                            error="rebalance_in_progress", asked_ms=at_ms + 599)  # fmt: skip
            yield from self._joins(number, at_ms + 700 + number, generation)
            return
        later_ms = 850 if len(self.owned(number, generation)) > len(before) else 750
        yield self._assigned(number, at_ms + later_ms + number, generation, before)

    def _joins(
        self, number: int, at_ms: int, generation: int, life: int = 1
    ) -> Iterator[HistoryRow]:
        yield self._row(number, Kind.JOINED, at_ms, life=life, generation=generation,
                        asked_ms=at_ms - 40)  # fmt: skip
        yield self._assigned(number, at_ms + 110, generation, (), life)

    def _assigned(
        self, number: int, at_ms: int, generation: int, before: Sequence[str], life: int = 1
    ) -> HistoryRow:
        owned = self.owned(number, generation)
        revoked = [each for each in before if each not in owned]
        return self._row(number, Kind.ASSIGNED, at_ms, life=life, generation=generation,
                         assigned=owned, owned=owned, revoked=revoked or None,
                         asked_ms=at_ms - 1)  # fmt: skip

    def _row(self, number: int, kind: str, time_ms: int, *, life: int = 1, **more: object
             ) -> HistoryRow:  # fmt: skip
        is_static = self.has_static and number % 2 == 1
        return HistoryRow(
            kind=str(kind), time_ms=time_ms, protocol=self.protocol, member=f"m-{number}",
            life=life, sequence=time_ms, instance_id=f"m-{number}" if is_static else None,
            member_id=f"m-{number}-{life}",
        )._replace(**more)  # type: ignore[arg-type]  # fmt: skip

    def _last_life(self, number: int) -> int:
        if number == TWIN and self.is_classic:
            return 2
        return 2 if number == RESTARTER and self.has_static else 1


def _routine(session: SparkSession, groups: DataFrame, shape: HistoryShape) -> DataFrame:
    """Return the heartbeats and commits."""
    number, tick = F.col("m"), F.col("tick")
    protocol = F.col("protocol")
    has_static = protocol.isin(*HAS_STATIC)
    is_second = ((number == TWIN) & (protocol == "classic") & (tick > shape.doubled)) | (
        (number == RESTARTER) & has_static & (tick > shape.restarted)
    )
    generation = (
        F.when(tick <= shape.expelled, 1).when(tick <= shape.back, 2)
        .when(tick <= shape.left, 3).otherwise(4)
    )  # fmt: skip
    name = F.concat(F.lit("m-"), number.cast("string"))
    is_there = ((number != LEAVER) | (tick <= shape.left)) & (
        (number != SLEEPER) | (tick <= shape.frozen) | (tick > shape.back)
    )
    ticks = session.range(shape.members * shape.ticks).select(
        (F.col("id") % shape.members).alias("m"),
        (F.floor(F.col("id") / shape.members) + 1).alias("tick"),
    )
    base = (
        ticks.crossJoin(F.broadcast(groups))
        .where(is_there)
        .withColumn("generation", generation.cast("int"))
        .withColumn("life", F.when(is_second, 2).otherwise(1).cast("int"))
        .withColumn("member", name)
        .withColumn("instance_id", F.when(has_static & (number % 2 == 1), name))
        .withColumn("member_id", F.concat_ws("-", name, F.col("life").cast("string")))
    )
    beats = _at(base, Kind.HEARTBEAT, tick * TICK_MS + number)
    commits = _at(base.where(protocol != "share").where(tick % 2 == 0), Kind.COMMITTED,
                  tick * TICK_MS + 500 + number)  # fmt: skip
    commits = commits.withColumn("offsets", _offsets(F.col("time_ms")))
    return _whole(beats).unionByName(_whole(commits))


def _at(base: DataFrame, kind: str, time_ms: Column) -> DataFrame:
    return (
        base.withColumn("kind", F.lit(str(kind)))
        .withColumn("time_ms", time_ms)
        .withColumn("asked_ms", time_ms - 1)
        .withColumn("sequence", time_ms)
    )


def _offsets(offset: Column) -> Column:
    number, generation = F.col("m"), F.col("generation")

    def partitions(of: Column) -> Column:
        names = ((2 * of).cast("string"), (2 * of + 1).cast("string"))
        return F.array(*(F.concat(F.lit("t-"), name) for name in names))

    extra = (
        F.when((generation == 2) & (number == HEIR), partitions(F.lit(SLEEPER)))
        .when((generation == 4) & (number == TAKER), partitions(F.lit(LEAVER)))
        .otherwise(F.array().cast("array<string>"))
    )  # fmt: skip
    owned = F.concat(partitions(number), extra)
    return F.map_from_arrays(owned, F.transform(owned, lambda _each: offset))


def _whole(rows: DataFrame) -> DataFrame:
    return rows.select(
        *(
            F.col(name) if name in rows.columns else F.lit(None).cast(column.type).alias(name)
            for name, column in COLUMNS.items()
        )
    )
