"""The lag of watched groups as values of the table of metrics."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from actors.metrics.names import LAG, LAG_LEFT_OUT, OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actors.watching.ends import PartitionEnds
    from actors.watching.session import WatchSession
    from protocol.watching.committed import CommittedOffsets

SERIES_MAX: Final = 10_000
"""Partitions of groups that are shown one by one; groups with the first names come first."""


class WatchedLag:
    """The lag of the groups of one session; any thread may ask."""

    def __init__(self, session: WatchSession, ends: PartitionEnds) -> None:
        self._session = session
        self._ends = ends

    def refresh(self) -> None:
        """Ask for the ends of partitions with offsets, if those that are known are old."""
        self._ends.refresh(self._wanted)

    def status(self) -> Mapping[str, Any]:
        """Return the offsets that are known, and how far behind they are."""
        self.refresh()
        with self._session.lock:
            return lag_rows(self._session.watch.outlook.committed, self._ends.of)

    def _wanted(self) -> set[tuple[str, int]]:
        with self._session.lock:
            committed = self._session.watch.outlook.committed
            return {(topic, number) for _, topic, number, _ in _rows(committed)}


def lag_rows(
    committed: CommittedOffsets, ends: Callable[[str, int], int | None]
) -> Mapping[str, Any]:
    """Return rows of labels and a value; ``ends`` returns the end of a partition, if known."""
    lags: list[list[Any]] = []
    offsets: list[list[Any]] = []
    for group_id, topic, partition, offset in islice(_rows(committed), SERIES_MAX):
        names = group_id, topic, str(partition)
        offsets.append([*names, offset])
        end = ends(topic, partition)
        if end is not None:
            lags.append([*names, max(end - offset, 0)])
    return {LAG: lags, OFFSET: offsets, LAG_LEFT_OUT: [[len(committed) - len(offsets)]]}


def _rows(committed: CommittedOffsets) -> Iterator[tuple[str, str, int, int]]:
    for group_id in sorted(committed.groups()):
        for topic, partition, found in committed.of_group(group_id):
            yield group_id, topic, partition, found.offset
