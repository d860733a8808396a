"""How far the watching of a rehearsal was behind: when records were written, and had been read."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.clock import wall_ms
from actors.watching.failures import TOPIC
from bench.servers.processes import cpu_seconds
from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.watching.place import PlaceFile

ANSWER_S: Final = 30.0
SAMPLE_S: Final = 0.1


class LoadTimes(NamedTuple):
    """When the broker wrote the first and the last record of a load (Unix ms)."""

    first_ms: int
    last_ms: int


def written(bootstrap: str, partitions: Iterable[int], since_ms: int) -> LoadTimes:
    """Ask the broker, whose clock is this machine's. Raises StartError."""
    from confluent_kafka import KafkaException, admin

    kafka: Any = admin
    client = kafka.AdminClient({"bootstrap.servers": bootstrap})
    numbers = list(partitions)
    try:
        firsts = _times(client, numbers, kafka.OffsetSpec.for_timestamp(since_ms))
        lasts = _times(client, numbers, kafka.OffsetSpec.max_timestamp())
    except KafkaException as error:
        raise StartError(f"the broker does not say when records were written: {error}") from None
    if not firsts:
        raise StartError("nothing was written while it was watched")
    return LoadTimes(min(firsts), max(lasts))


def _times(client: Any, numbers: Iterable[int], which: Any) -> list[int]:
    """Return the times of the records that are asked for, of the partitions that have one."""
    from confluent_kafka import TopicPartition

    asked = {TopicPartition(TOPIC, number): which for number in numbers}
    futures = client.list_offsets(asked, request_timeout=ANSWER_S).values()
    found = [future.result() for future in futures]
    return [each.timestamp for each in found if each.offset >= 0 <= each.timestamp]


class ReadProgress:
    """Looks on a thread, until it is stopped, when a watching has read more.

    It knows that from the file of its place, which is saved every second: what it says is late by
    that at most, and never early.
    """

    def __init__(self, file: PlaceFile, pid: int) -> None:
        self._file, self._pid = file, pid
        self._place = file.load()
        self.read_ms = wall_ms()
        """When the place had changed for the last time (Unix ms)."""
        self.cpu_s = cpu_seconds([pid])
        """The CPU time that the process had used by then."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="read progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and stop; the figures stay, whatever the process does then."""
        if self._is_over.is_set():
            return
        self._is_over.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            self._look()

    def _look(self) -> None:
        place = self._file.load()
        if place != self._place:
            self._place = place
            self.read_ms, self.cpu_s = wall_ms(), cpu_seconds([self._pid])
