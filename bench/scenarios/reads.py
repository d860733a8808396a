"""Reads of committed offsets beside the members: which group is read when, and what was read. Pure.

A lost commit is soon committed over. So a reader asks for the offsets of one group after the other
all the time, and of all groups at once after each fault.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.scenarios.values import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bench.scenarios.scenario import Scenario
    from protocol.wire.embedded import TopicPartition

READS_MAX: Final = 10_000
OFFSETS_MAX: Final = 1_000_000
"""So many reads of a run are kept, with so many offsets in all, and those of its end."""
EVERY_MS: Final = 100
"""There are at most ten reads a second."""
GROUP_MS: Final = 1_000
"""No group is read more often, but after a fault."""
HURRY_MS: Final = 20_000
"""For so long after a fault reads are as close as they may be: the next leader has come by then."""


@dataclass(frozen=True, slots=True)
class OffsetsRead:
    """The committed offsets of a group, as its coordinator answered at ``time_ms``."""

    group: str
    asked_ms: int
    time_ms: int
    offsets: Mapping[TopicPartition, int]


def committed_in(reads: Iterable[OffsetsRead]) -> dict[tuple[str, str, int], int]:
    """Return the offsets of these reads by group, topic and partition."""
    return {
        (read.group, topic, index): offset
        for read in reads
        for (topic, index), offset in read.offsets.items()
    }


class ReadTurns:
    """Whose turn it is to be read; times are from the begin of the run.

    The groups take turns. Their pace leaves as many reads as are kept for all of the run.
    """

    def __init__(self, scenario: Scenario) -> None:
        groups = [each.name for each in scenario.groups if each.protocol is not Protocol.SHARE]
        self._groups = deque(groups)
        partitions = scenario.partitions_by_group()
        each = max(1, sum(len(partitions[name]) for name in groups) // max(1, len(groups)))
        kept = max(1, min(READS_MAX, OFFSETS_MAX // each))
        self._close_ms = max(EVERY_MS, GROUP_MS // max(1, len(groups)))
        self._every_ms = max(self._close_ms, scenario.duration // kept)
        self._hurries_until_ms = -1
        self._due_ms = 0
        self._last_ms = -EVERY_MS

    def hurry(self, now_ms: int) -> None:
        """Let the next read come at once, and the others soon: there was a fault."""
        self._hurries_until_ms = now_ms + HURRY_MS
        self._due_ms = max(now_ms, self._last_ms + EVERY_MS)

    def wait_ms(self, now_ms: int) -> int | None:
        """Return how long it is to the next turn; None: there is nobody to be read."""
        return max(0, self._due_ms - now_ms) if self._groups else None

    def take(self, now_ms: int) -> str:
        """Return the group whose turn it is now."""
        is_close = now_ms < self._hurries_until_ms
        self._last_ms = now_ms
        self._due_ms = now_ms + (self._close_ms if is_close else self._every_ms)
        group = self._groups[0]
        self._groups.rotate(-1)
        return group


class KeptReads:
    """The reads of a run, bounded in number."""

    def __init__(self) -> None:
        self._reads: list[OffsetsRead] = []
        self._offsets = 0
        self._names: dict[TopicPartition, TopicPartition] = {}

    @property
    def are_full(self) -> bool:
        """Whether no more are kept, but those of the end."""
        return len(self._reads) >= READS_MAX or self._offsets >= OFFSETS_MAX

    def add(self, read: OffsetsRead) -> None:
        """Keep a read, if there is room."""
        if not self.are_full:
            self._keep(read)

    def add_last(self, reads: Iterable[OffsetsRead]) -> None:
        """Keep the reads of the end."""
        for each in reads:
            self._keep(each)

    def _keep(self, read: OffsetsRead) -> None:
        names = self._names  # the same names in all reads
        offsets = {names.setdefault(name, name): offset for name, offset in read.offsets.items()}
        self._offsets += len(offsets)
        self._reads.append(OffsetsRead(read.group, read.asked_ms, read.time_ms, offsets))

    def all(self) -> tuple[OffsetsRead, ...]:
        """Return all reads in the order of their answers."""
        return tuple(self._reads)
