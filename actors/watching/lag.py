"""The lag of watched groups as values of the table of metrics.

The most active groups are shown, each with all its partitions, and the lag of the others is summed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from actors.metrics.names import LAG, LAG_LEFT_OUT, OFFSET, OFFSETS_LEFT_OUT
from actors.watching.ends import FRESH_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from actors.telemetry.group_metrics import GroupMetrics
    from actors.watching.ends import PartitionEnds
    from actors.watching.session import WatchSession
    from protocol.watching.committed import CommittedOffsets

SERIES_MAX: Final = 10_000
"""Partitions of groups that are shown one by one; a group with more of them is not shown."""


class WatchedLag:
    """The lag of the groups of one session; any thread may ask."""

    def __init__(
        self,
        session: WatchSession,
        ends: PartitionEnds,
        metrics: GroupMetrics,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``metrics`` know how active the groups are."""
        self._session = session
        self._ends = ends
        self._metrics = metrics
        self._clock_s = clock_s
        self._summed_s = -FRESH_S
        self._sum = 0

    def refresh(self) -> None:
        """Ask for the ends of partitions with offsets, if those that are known are old."""
        self._ends.refresh(self._wanted)

    def status(self) -> Mapping[str, Any]:
        """Return rows of labels and a value: the known offsets, and how far behind they are."""
        self.refresh()
        with self._session.lock:
            committed = self._session.watch.outlook.committed
            shown, left_out = _divide(committed, lambda each: self._metrics.rebalances(each)[1])
            rows = list(_rows(committed, shown))
            count = len(committed) - len(rows)
        offsets = [[group, topic, str(number), offset] for group, topic, number, offset in rows]
        lags = [
            [group, topic, str(number), lag]
            for group, topic, number, offset in rows
            if (lag := self._lag(topic, number, offset)) is not None
        ]
        summed = self._sum_of(left_out)
        return {LAG: lags, OFFSET: offsets, LAG_LEFT_OUT: [[summed]], OFFSETS_LEFT_OUT: [[count]]}

    def _sum_of(self, groups: Iterable[str]) -> int:
        """Return the lag of groups that are left out, as of some seconds ago: there may be many."""
        if self._clock_s() - self._summed_s >= FRESH_S:
            found = 0
            for group_id in groups:
                with self._session.lock:  # for each, so that the log is read meanwhile
                    rows = list(_rows(self._session.watch.outlook.committed, (group_id,)))
                found += sum(self._lag(*row[1:]) or 0 for row in rows)
            self._sum, self._summed_s = found, self._clock_s()
        return self._sum

    def _lag(self, topic: str, number: int, offset: int) -> int | None:
        end = self._ends.of(topic, number)
        return None if end is None else max(end - offset, 0)

    def _wanted(self) -> set[tuple[str, int]]:
        with self._session.lock:
            committed = self._session.watch.outlook.committed
            rows = _rows(committed, committed.groups())
            return {(topic, number) for _, topic, number, _ in rows}


def _divide(
    committed: CommittedOffsets, activity: Callable[[str], int]
) -> tuple[list[str], list[str]]:
    """Return the groups that are shown, and the others.

    The most active ones come first; of those that are equally active the ones with most offsets.
    """
    ranked = sorted(
        (-activity(group_id), -committed.count(group_id), group_id)
        for group_id in committed.groups()
    )
    shown: list[str] = []
    left_out: list[str] = []
    room = SERIES_MAX
    for _, less, group_id in ranked:
        fits = -less <= room
        (shown if fits else left_out).append(group_id)
        room += less if fits else 0
    return shown, left_out


def _rows(
    committed: CommittedOffsets, groups: Iterable[str]
) -> Iterator[tuple[str, str, int, int]]:
    for group_id in groups:
        for topic, partition, found in committed.of_group(group_id):
            yield group_id, topic, partition, found.offset
