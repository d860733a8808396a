"""The lag of watched groups as values of the table of metrics.

The most active groups are shown, each with all its partitions, and the lag of the others is summed.
"""

from __future__ import annotations

import time
from heapq import nsmallest
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from actors.metrics.names import LAG, LAG_LEFT_OUT, OFFSET, OFFSETS_LEFT_OUT
from actors.watching.ends import FRESH_S
from protocol.stories.story import GROUP_ID_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from actors.telemetry.group_metrics import GroupMetrics
    from actors.watching.ends import PartitionEnds
    from actors.watching.session import WatchSession
    from protocol.watching.committed import CommittedOffsets

GROUPS_AT_ONCE: Final = 500
"""Groups that are counted while the lock is held."""

SERIES_MAX: Final = 10_000
"""Partitions of groups that are shown one by one; a group with more of them is not shown.

Nor is one with an id of more than ``GROUP_ID_MAX`` characters, as everywhere in the metrics.
"""


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
        self._ends.refresh(self.wanted)

    def status(self) -> Mapping[str, Any]:
        """Return rows of labels and a value: the known offsets, and how far behind they are."""
        self.refresh()
        shown = self._shown()
        with self._session.lock:
            committed = self._session.watch.outlook.committed
            rows = list(_rows(committed, shown))
            count = len(committed) - len(rows)
        offsets = [[group, topic, str(number), offset] for group, topic, number, offset in rows]
        lags = [
            [group, topic, str(number), lag]
            for group, topic, number, offset in rows
            if (lag := self._lag(topic, number, offset)) is not None
        ]
        summed = self._left_out(frozenset(shown))
        return {LAG: lags, OFFSET: offsets, LAG_LEFT_OUT: [[summed]], OFFSETS_LEFT_OUT: [[count]]}

    def wanted(self) -> Iterator[tuple[str, int]]:
        """Return the partitions with offsets, each once: first those of the groups that are shown.

        Only as many are remembered as were taken; the lock is held for one topic of a group.
        """
        shown = self._shown()
        first = frozenset(shown)
        others = (each for each in self._groups() if each not in first)
        seen: dict[str, set[int]] = {}
        for group_id in chain(shown, others):
            for topic, rows in self._topics(group_id):
                known = seen.setdefault(topic, set())
                for number, _ in rows:
                    if number not in known:
                        known.add(number)
                        yield topic, number

    def _left_out(self, shown: Container[str]) -> int:
        """Return the known lag of the other groups, as of some seconds ago: there may be many."""
        if self._clock_s() - self._summed_s >= FRESH_S:
            self._sum = sum(
                self._lag(topic, number, offset) or 0
                for group_id in self._groups()
                if group_id not in shown
                for topic, rows in self._topics(group_id)
                for number, offset in rows
            )
            self._summed_s = self._clock_s()
        return self._sum

    def _lag(self, topic: str, number: int, offset: int) -> int | None:
        end = self._ends.of(topic, number)
        return None if end is None else max(end - offset, 0)

    # --- a part of the offsets at a time, so that the log is read meanwhile

    @property
    def _committed(self) -> CommittedOffsets:
        return self._session.watch.outlook.committed

    def _groups(self) -> Sequence[str]:
        with self._session.lock:
            return list(self._committed.groups())

    def _topics(self, group_id: str) -> Iterator[tuple[str, Sequence[tuple[int, int]]]]:
        """Return a group's topics, with their partitions and offsets."""
        with self._session.lock:
            topics = self._committed.topics_of(group_id)
        for topic in topics:
            with self._session.lock:
                rows = self._committed.of_topic(group_id, topic)
            yield topic, rows

    def _shown(self) -> list[str]:
        """Return the groups that are shown.

        The most active ones come first; of those that are equally active the ones with most
        offsets. Each has one at least, so there are no more groups than series.
        """
        shown: list[str] = []
        room = SERIES_MAX
        for _, less, group_id in nsmallest(SERIES_MAX, self._ranks()):
            if -less <= room:
                shown.append(group_id)
                room += less
        return shown

    def _ranks(self) -> Iterator[tuple[int, int, str]]:
        """Return the ranks of the groups of which each could be shown."""
        groups = iter(self._groups())
        while some := list(islice(groups, GROUPS_AT_ONCE)):
            with self._session.lock:
                counts = [(self._committed.count(each), each) for each in some]
            for count, group_id in counts:
                if 0 < count <= SERIES_MAX and len(group_id) <= GROUP_ID_MAX:
                    yield -self._metrics.rebalances(group_id)[1], -count, group_id


def _rows(
    committed: CommittedOffsets, groups: Iterable[str]
) -> Iterator[tuple[str, str, int, int]]:
    for group_id in groups:
        for topic, partition, found in committed.of_group(group_id):
            yield group_id, topic, partition, found.offset
