"""The subscriptions of a group that a worker holds: rows of numbers, whatever names they stand for.

A thousand members with a thousand different subscriptions name two hundred thousand topics: what is
done to each of them is done by numpy.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from protocol.assignors.kernels import kernel, writable
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
            fresh = list(islice(known, before, None))
            self._topic_of = np.concatenate([self._topic_of, self._places(fresh)])
        rows = np.array(numbers, np.int32)[told.indexes]
        starts = told.starts.tolist()
        for number, start, end in zip(told.numbers.tolist(), starts, starts[1:], strict=False):
            self._rows[number] = rows[start:end]
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
        if not self._classes:
            return self._find(numbers)
        self._find([number for number in numbers if number not in self._classes])
        rows = [self._classes[number] for number in numbers]
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int32)
        return starts, np.concatenate(rows) if rows else no_values()

    def _find(self, numbers: Sequence[int]) -> tuple[Int32s, Int32s]:
        """Look up the topics of these subscriptions, all in one go; give them as above."""
        if not numbers:
            return np.zeros(1, np.int32), no_values()
        rows = [self._rows[number] for number in numbers]
        listed = self._topic_of[np.concatenate(rows)]
        ends = np.cumsum([len(row) for row in rows], dtype=np.int32)
        found, ends = sort_rows(writable(listed), ends, len(self._topic_index))
        starts = np.append(np.int32(0), ends)
        bounds = starts.tolist()
        for number, start, end in zip(numbers, bounds, bounds[1:], strict=False):
            self._classes[number] = found[start:end]
        return starts, found

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


@kernel
def sort_rows(listed: Int32s, ends: Int32s, topics: int) -> tuple[Int32s, Int32s]:
    """Put the topics of each row in order, without NOBODY; give the new ends of the rows, too.

    What is listed by row is listed by topic, and that again by row.
    """
    starts = np.zeros(topics + 1, np.int32)
    for topic in listed:
        if topic != NOBODY:
            starts[topic + 1] += 1
    for topic in range(topics):
        starts[topic + 1] += starts[topic]
    rows = np.empty(starts[topics], np.int32)
    new_ends = np.zeros(len(ends), np.int32)
    cursor = np.zeros(len(ends), np.int32)
    at, count = 0, 0
    for row in range(len(ends)):
        cursor[row] = count
        for place in range(at, ends[row]):
            topic = listed[place]
            if topic != NOBODY:
                rows[starts[topic]] = row
                starts[topic] += 1
                count += 1
        at, new_ends[row] = ends[row], count
    found = np.empty(count, np.int32)
    first = 0
    for topic in range(topics):
        for place in range(first, starts[topic]):
            row = rows[place]
            found[cursor[row]] = topic
            cursor[row] += 1
        first = starts[topic]
    return found, new_ends
