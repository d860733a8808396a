"""Which groups of a watched Kafka have a lag of their own in the metrics, and what is summed."""

from __future__ import annotations

import threading
import tracemalloc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from actors.metrics.names import LAG, LAG_LEFT_OUT, OFFSET, OFFSETS_LEFT_OUT
from actors.telemetry.group_metrics import GroupMetrics
from actors.watching import ends, lag
from actors.watching.ends import FRESH_S, PartitionEnds
from actors.watching.lag import WatchedLag
from protocol.watching.committed import Committed, CommittedOffsets
from tests.actors.telemetry.facts import rebalance
from tests.actors.telemetry.test_metrics import Clock
from tests.actors.watching.test_console import Ends

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest


class Held:
    """A lock that notes how much was done each time while it was held."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.work = [0]

    def __enter__(self) -> None:
        self._lock.acquire()
        self.work.append(0)

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def does(self, found: Any, count: int) -> Any:
        assert self._lock.locked()
        self.work[-1] += count
        return found


class Watched:
    """Groups with so many partitions, each at offset 5, and whose partitions all end at 20."""

    def __init__(self, **partitions: int) -> None:
        self.committed = CommittedOffsets()
        for group_id, count in partitions.items():
            for number in range(count):
                self.committed.put(group_id, "t", number, Committed(5, 0))
        outlook = SimpleNamespace(committed=self.committed)
        self.lock = threading.Lock()
        self.session: Any = SimpleNamespace(lock=self.lock, watch=SimpleNamespace(outlook=outlook))
        self.clock, self.metrics, self.ends = Clock(), GroupMetrics(), Ends()
        known = PartitionEnds(self.ends, self.clock)
        self.lag = WatchedLag(self.session, known, self.metrics, self.clock)

    def shown(self) -> tuple[list[tuple[str, str]], int, int]:
        """The groups and partitions that are shown; the lag and the offsets of the others."""
        found = self.lag.status()
        assert {(*each[:3], each[3] + 10) for each in found[OFFSET]} == {*map(tuple, found[LAG])}
        ((summed,),), ((count,),) = found[LAG_LEFT_OUT], found[OFFSETS_LEFT_OUT]
        return [(group, number) for group, _, number, _ in found[LAG]], summed, count


def test_the_most_active_groups_are_shown_and_the_lag_of_the_others_is_summed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lag, "SERIES_MAX", 5)
    watched = Watched(a=1, b=2, c=3, d=1, z=2)
    assert watched.shown() == ([("c", "0"), ("c", "1"), ("c", "2"), ("b", "0"), ("b", "1")], 60, 4)
    for group_id in ("z", "z", "d"):
        watched.metrics.observe(rebalance(group_id=group_id))
    watched.clock.now_s += FRESH_S
    assert watched.shown() == ([("z", "0"), ("z", "1"), ("d", "0"), ("b", "0"), ("b", "1")], 60, 4)


def test_a_group_is_shown_with_all_its_partitions_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lag, "SERIES_MAX", 3)
    assert Watched(large=4, small=1).shown() == ([("small", "0")], 60, 4)


def test_a_group_whose_id_is_too_long_for_a_label_is_summed() -> None:
    assert Watched(**{"a" * 1_001: 2, "b": 1}).shown() == ([("b", "0")], 30, 2)


def test_all_groups_are_shown_while_there_is_room() -> None:
    assert Watched(a=1, b=1).shown() == ([("a", "0"), ("b", "0")], 0, 0)


def test_an_end_that_is_not_known_is_in_no_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "SERIES_MAX", 1)
    watched = Watched(a=1, b=1)
    watched.committed.put("c", "u", 0, Committed(5, 0))
    monkeypatch.setattr(watched.ends, "end_offsets", lambda _: {("t", 0): 20})
    assert watched.shown() == ([("a", "0")], 15, 2)


def test_what_is_left_out_is_summed_no_more_often_than_ends_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lag, "SERIES_MAX", 1)
    watched = Watched(a=1, b=1)
    assert watched.shown()[1] == 15
    watched.committed.put("b", "t", 0, Committed(20, 0))
    assert watched.shown()[1] == 15
    watched.clock.now_s += FRESH_S
    assert watched.shown()[1] == 0


def test_ends_are_asked_for_in_slices_while_the_log_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the number of offsets: the lock is free, and not all are remembered at once."""
    monkeypatch.setattr(ends, "ENDS_MAX", 2_000)
    watched = Watched()
    for number in range(60_000):
        group_id, topic = f"g{number // 600}", f"t{number // 20 % 60}"
        watched.committed.put(group_id, topic, number % 20 + number // 600, Committed(5, 0))
    assert len(watched.committed) == 60_000
    asked: list[tuple[str, int]] = []

    def end_offsets(wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        for place in wanted:
            assert watched.lock.acquire(blocking=False)
            watched.lock.release()
            asked.append(place)
        return {}

    monkeypatch.setattr(watched.ends, "end_offsets", end_offsets)
    tracemalloc.start()
    try:
        watched.lag.refresh()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(asked) == len(set(asked)) == 2_000
    assert peak < 20 * 60_000  # a set of all took more than 150 bytes for each


def test_the_lock_is_never_held_for_more_than_a_topic_or_some_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lag, "SERIES_MAX", 4)
    monkeypatch.setattr(lag, "GROUPS_AT_ONCE", 3)
    watched = Watched(**{f"g{number}": 7 for number in range(20)})
    held = Held(watched.lock)
    watched.session.lock = held
    counted, read = watched.committed.count, watched.committed.of_topic
    monkeypatch.setattr(watched.committed, "count", lambda each: held.does(counted(each), 1))
    monkeypatch.setattr(
        watched.committed, "of_topic", lambda *each: held.does(found := read(*each), len(found))
    )
    assert watched.shown() == ([], 20 * 7 * 15, 20 * 7)
    assert max(held.work) == 7
    assert sum(held.work) >= 20 * (7 + 7 + 1 + 1)
