"""A group of a watched Kafka, for a picture: its records as its coordinator wrote them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

from actors.clock import wall_ms
from actors.telemetry.group_metrics import GroupMetrics
from actors.watching.console import WatchedSource
from actors.watching.ends import PartitionEnds
from actors.watching.reader import Found, ReadBatch, WatchedRecord
from actors.watching.session import Options, WatchSession
from protocol.groups.topics import Topic
from protocol.records import OffsetCommitKey, OffsetCommitValue, Record, encode
from tests.actors.watching.test_session import Told
from tests.protocol.watching.records import TOPIC, current, epoch, gone, joined, targets

GROUP, TOPIC_NAME = "orders", "orders"
PARTITIONS = 12
FIRST_OFFSET = 81_000
UNREVOKED, UNRELEASED = 1, 2
SESSION_MS = 45_000


class TimedLog:
    """A log of one partition that is read from its start to its end."""

    def __init__(self, records: Iterable[tuple[int, tuple[Any, Any]]]) -> None:
        self._records = [
            WatchedRecord(0, offset, *encode(Record(*record)), time_ms)
            for offset, (time_ms, record) in enumerate(records)
        ]
        self._at = 0
        self.stop = threading.Event()

    def find(self) -> Found:
        return Found("c", "one", {0: 0}, {0: len(self._records)})

    def start(self, offsets: Mapping[int, int]) -> None:
        self._at = offsets[0]

    def poll(self, timeout_s: float) -> ReadBatch:
        """Return one record at a time; then nothing, once, so that what waits is told."""
        taken = self._records[self._at : self._at + 1]
        self._at += 1
        if self._at > len(self._records) + 1:
            self.stop.set()
        return ReadBatch(taken, () if taken else (0,), ())

    def take_errors(self) -> list[Any]:
        return []

    def exists(self) -> bool | None:
        return True

    def topic_id(self) -> str:
        return "one"

    def topics(self) -> Iterable[Topic]:
        return [Topic(TOPIC, TOPIC_NAME, PARTITIONS), Topic(UUID(int=8), "mails", 4)]

    def end_offsets(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Let each partition be some records ahead of the group."""
        return {
            (topic, number): FIRST_OFFSET + 1_000 * number + 7 * number**2 + 40
            for topic, number in wanted
        }


def watched_orders() -> tuple[WatchedSource, str]:
    """Return a watched Kafka, and the group that has something to tell."""
    now = wall_ms()
    log = TimedLog([(now + at, _renamed(record)) for at, record in _happened()])
    metrics = GroupMetrics()
    options = Options(bootstrap="kafka-1:9092", is_from_beginning=True, metrics=metrics)
    session = WatchSession(log, options, Told())
    session.run(log.stop)
    return WatchedSource(session, "kafka-1:9092", PartitionEnds(log), metrics), GROUP


def _happened() -> Iterable[tuple[int, tuple[Any, Any]]]:
    """Return records, and when each was written: two join, a third, which goes, and is back."""
    halves = {"web-1": range(6), "web-2": range(6, 12)}
    thirds = {"web-1": range(4), "web-2": range(6, 10), "web-3": (4, 5, 10, 11)}
    begin = -900_000
    yield from _at(begin, _joined(1), _joined(2), epoch(2), *targets(2, halves))
    yield from _at(begin + 400, *(current(name, 2, *own) for name, own in halves.items()))
    yield from _commits(begin + 30_000, halves)
    begin = -600_000
    yield from _at(begin, _joined(3), epoch(3), *targets(3, thirds))
    yield from _at(
        begin + 900,
        current("web-1", 2, *range(4), state=UNREVOKED, revoking=(4, 5)),
        current("web-2", 2, *range(6, 10), state=UNREVOKED, revoking=(10, 11)),
        current("web-3", 3, state=UNRELEASED),
    )
    yield from _at(
        begin + 3_100, current("web-1", 3, *range(4)), current("web-2", 3, *range(6, 10))
    )
    yield from _at(begin + 3_600, current("web-3", 3, 4, 5, 10, 11))
    begin = -240_000
    yield from _commits(begin - SESSION_MS - 2_000, thirds)
    yield from _at(begin, *gone("web-3"), epoch(4), *targets(4, halves))
    yield from _at(
        begin + 2_000, current("web-1", 4, *range(6)), current("web-2", 4, *range(6, 12))
    )
    yield from _commits(begin + 10_000, halves)
    begin = -60_000
    yield from _at(begin, _joined(4), epoch(5))
    thirds["web-4"] = thirds.pop("web-3")
    yield from _at(begin + 40, *targets(5, thirds))
    yield from _at(
        begin + 2_700, current("web-1", 5, *range(4)), current("web-2", 5, *range(6, 10))
    )
    yield from _at(begin + 5_200, current("web-4", 5, 4, 5, 10, 11))
    yield from _commits(begin + 20_000, thirds)


def _joined(number: int) -> tuple[Any, Any]:
    return joined(f"web-{number}", topics=(TOPIC_NAME,), client_host=f"/10.0.0.{number + 1}")


def _at(at: int, *records: tuple[Any, Any]) -> Iterable[tuple[int, tuple[Any, Any]]]:
    return [(at, each) for each in records]


def _commits(at: int, owned: Mapping[str, Iterable[int]]) -> Iterable[tuple[int, tuple[Any, Any]]]:
    for number in sorted(number for those in owned.values() for number in those):
        value = OffsetCommitValue(
            offset=FIRST_OFFSET + 1_000 * number,
            metadata="",
            commit_timestamp=wall_ms() + at,
            topic_id=TOPIC,
        )
        yield at, (OffsetCommitKey(GROUP, TOPIC_NAME, number), value)


def _renamed(record: tuple[Any, Any]) -> tuple[Any, Any]:
    """Give the group of a record our name."""
    key, value = record
    return replace(key, **{fields(key)[0].name: GROUP}), value
