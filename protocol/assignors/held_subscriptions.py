"""The subscriptions of a group that a worker holds: rows of numbers, whatever names they stand for.

A thousand members with a thousand different subscriptions name two hundred thousand topics: what is
done to each of them is done by numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from protocol.assignors.spec import NOBODY, Int32s, no_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from protocol.assignors.flat import FlatSubscriptions

SPARE_NAMES: Final = 1_000
"""Names that nobody uses any more go when there are more of them than that, and than others."""


class HeldSubscriptions:
    """Subscriptions by number; of each, the names as numbers of their own, and the topics."""

    __slots__ = ("_classes", "_names", "_names_kept", "_rows", "_topic_index", "_topic_of")

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._names_kept = 0
        self._rows: dict[int, Int32s] = {}
        self._classes: dict[int, Int32s] = {}  # as of the topics of now
        self._topic_index: Mapping[str, int] = {}
        self._topic_of: Int32s = no_values()  # by number of the name

    def take_topics(self, names: Sequence[str]) -> None:
        """Learn which topics there are, by their places."""
        self._topic_index = {name: place for place, name in enumerate(names)}
        self._topic_of = self._places(list(self._names))
        self._classes.clear()

    def update(self, told: FlatSubscriptions) -> None:
        """Learn some subscriptions, new or not what they were."""
        known = self._names
        before = len(known)
        numbers = [known.setdefault(name, len(known)) for name in told.names]
        if len(known) > before:
            fresh = [name for name, number in zip(told.names, numbers, strict=True)
                     if number >= before]  # fmt: skip
            self._topic_of = np.concatenate([self._topic_of, self._places(fresh)])
        rows = np.array(numbers, np.int32)[told.indexes]
        starts = told.starts.tolist()
        for place, number in enumerate(told.numbers.tolist()):
            self._rows[number] = rows[starts[place] : starts[place + 1]]
            self._classes.pop(number, None)
        if len(known) > 2 * self._names_kept + SPARE_NAMES:
            self._forget_names()

    def drop(self, number: int) -> None:
        """Forget a subscription."""
        del self._rows[number]
        self._classes.pop(number, None)

    def numbers(self) -> list[int]:
        """List the numbers of the subscriptions, ascending."""
        return sorted(self._rows)

    def classes(self) -> tuple[Int32s, Int32s]:
        """Give the topics of each subscription, by number and each ascending (CSR)."""
        numbers = self.numbers()
        self._find([number for number in numbers if number not in self._classes])
        rows = [self._classes[number] for number in numbers]
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int32)
        return starts, np.concatenate(rows) if rows else no_values()

    def _find(self, numbers: Sequence[int]) -> None:
        """Look up the topics of these subscriptions, all in one go."""
        if not numbers:
            return
        rows = [self._rows[number] for number in numbers]
        count = len(self._topic_index)
        topics = self._topic_of[np.concatenate(rows)].astype(np.int64)
        row_of = np.repeat(np.arange(len(rows), dtype=np.int64), [len(row) for row in rows])
        keys = (row_of * count + topics)[topics != NOBODY]
        if len(rows) * count < np.iinfo(np.int32).max:
            keys = keys.astype(np.int32)  # which is sorted in half the time
        keys.sort()
        ends = np.searchsorted(keys, np.arange(1, len(rows) + 1) * count).tolist()
        found = (keys % max(count, 1)).astype(np.int32)
        start = 0
        for number, end in zip(numbers, ends, strict=True):
            self._classes[number] = found[start:end]
            start = end

    def _places(self, names: Sequence[str]) -> Int32s:
        index = self._topic_index
        return np.array([index.get(name, NOBODY) for name in names], np.int32)

    def _forget_names(self) -> None:
        """Give the names new numbers, without those that no subscription has."""
        names = list(self._names)
        parts = [*self._rows.values(), no_values()]
        used, rows = np.unique(np.concatenate(parts), return_inverse=True)
        self._names = {names[number]: place for place, number in enumerate(used.tolist())}
        self._names_kept = len(used)
        self._topic_of = self._topic_of[used]
        start = 0
        for number, row in self._rows.items():
            self._rows[number] = rows[start : start + len(row)].astype(np.int32)
            start += len(row)
