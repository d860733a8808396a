"""How long a node's log takes to sync, and whether that is too slow to lead.

A candidate and each of its voters sync their vote before they send it, and a leader commits what a
majority has synced. A node whose syncs take about as long as an election timeout is rarely elected
in time, and the partition that waits for it answers no requests.
"""

from __future__ import annotations

from collections import deque
from typing import Final

KEPT: Final = 4
"""A node stays slow until this many syncs in a row were quick, or for :data:`KEPT_MS`."""

KEPT_MS: Final = 60_000


class SyncTimes:
    """The syncs of one node, reported by the driver; ``election_ms`` is the shortest timeout."""

    __slots__ = ("_began_ms", "_slow_ms", "_took")

    def __init__(self, election_ms: int) -> None:
        self._slow_ms = election_ms // 2
        self._took: deque[tuple[int, int]] = deque(maxlen=KEPT)  # when it ended, how long it took
        self._began_ms: int | None = None

    def began(self, now: int) -> None:
        """Note that a sync has started."""
        self._began_ms = now

    def ended(self, now: int) -> None:
        """Note that the sync is done."""
        if self._began_ms is not None:
            self._took.append((now, now - self._began_ms))
            self._began_ms = None

    def are_slow(self, now: int) -> bool:
        """Return whether one of the last syncs, or the current one, took half a timeout."""
        under_way_ms = 0 if self._began_ms is None else now - self._began_ms
        took_ms = (took for ended, took in self._took if now - ended < KEPT_MS)
        return max((under_way_ms, *took_ms)) >= self._slow_ms
