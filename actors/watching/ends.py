"""The ends of partitions in which groups have offsets: asked for while somebody looks."""

from __future__ import annotations

import threading
import time
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ENDS_MAX: Final = 200_000
"""Partitions whose ends are asked for."""

FRESH_S: Final = 15.0
"""How long ends are used before they are asked for again."""


class EndSource(Protocol):
    """Who knows the ends."""

    def end_offsets(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the ends of partitions."""


class PartitionEnds:
    """The ends as they were a few seconds ago; any thread may ask."""

    def __init__(self, source: EndSource, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._asked_s = -FRESH_S
        self._ends: Mapping[tuple[str, int], int] = {}

    def refresh(self, wanted: Callable[[], Iterable[tuple[str, int]]]) -> None:
        """Ask for the ends of ``wanted`` if those that are known are old; one thread does it.

        The first ``ENDS_MAX`` are asked for, some at a time: ``wanted`` is read in between.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._clock_s() - self._asked_s >= FRESH_S:
                self._ends = self._source.end_offsets(islice(wanted(), ENDS_MAX))
                self._asked_s = self._clock_s()
        finally:
            self._lock.release()

    def of(self, topic: str, partition: int) -> int | None:
        """Return the end of a partition, if it is known."""
        return self._ends.get((topic, partition))
