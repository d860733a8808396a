"""The subscriptions of a group that a worker caches: rows of numbers in place of names.

A thousand members with a thousand different subscriptions name two hundred thousand topics, so
numpy does the work for each of them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.assignors.kernels import kernel, writable
from protocol.assignors.spec import NOBODY, Int32s, no_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from protocol.assignors.flat import FlatSubscriptions

SPARE_NAMES: Final = 1_000
"""Unused names are dropped when there are more of them than this, and than names in use."""


class _Table:
    """Rows of values, by number. A table stays one array until one of its rows changes."""

    __slots__ = ("_rows", "_whole")

    def __init__(self) -> None:
        self._rows: dict[int, Int32s] = {}
        self._whole: tuple[list[int], NDArray[Any], Int32s] | None = None

    def __bool__(self) -> bool:
        return self._whole is not None or bool(self._rows)

    def put_all(self, numbers: list[int], starts: NDArray[Any], values: Int32s) -> None:
        """Store contiguous rows: row ``i`` is ``values[starts[i]:starts[i + 1]]``."""
        if self:
            self.rows().update(_cut(numbers, starts, values))
        else:
            self._whole = numbers, starts, values

    def rows(self) -> dict[int, Int32s]:
        """Return the rows, to be changed."""
        if self._whole is not None:
            self._rows, self._whole = _cut(*self._whole), None
        return self._rows

    def numbers(self) -> list[int]:
        """Return the numbers, ascending."""
        return sorted(self._rows if self._whole is None else self._whole[0])

    def laid(self, numbers: list[int]) -> tuple[NDArray[Any], Int32s]:
        """Concatenate rows; return their starts (with the last end) and the values."""
        if self._whole is not None and self._whole[0] == numbers:
            return self._whole[1:]
        rows = [self.rows()[number] for number in numbers]
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int32)
        return starts, np.concatenate(rows) if rows else no_values()

    def clear(self) -> None:
        """Drop all rows."""
        self._rows, self._whole = {}, None


def _cut(numbers: list[int], starts: NDArray[Any], values: Int32s) -> dict[int, Int32s]:
    ends = starts.tolist()
    return {
        number: values[start:end]
        for number, start, end in zip(numbers, ends, ends[1:], strict=False)
    }


class CachedSubscriptions:
    """Subscriptions by number; for each, its names (as numbers) and its topics."""

    __slots__ = ("_classes", "_names", "_names_kept", "_subscriptions", "_topic_index", "_topic_of")

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._names_kept = 0
        self._subscriptions = _Table()
        self._classes = _Table()  # for the present topics
        self._topic_index: Mapping[str, int] = {}
        self._topic_of: Int32s = no_values()  # by number of the name

    def take_topics(self, names: Sequence[str]) -> None:
        """Store the present topics, in order."""
        self._topic_index = {name: place for place, name in enumerate(names)}
        self._topic_of = self._places(list(self._names))
        self._classes.clear()

    def update(self, told: FlatSubscriptions) -> None:
        """Store some subscriptions, new or changed."""
        known = self._names
        before = len(known)
        numbers = [known.setdefault(name, len(known)) for name in told.names]
        if len(known) > before:
            fresh = list(islice(known, before, None))
            self._topic_of = np.concatenate([self._topic_of, self._places(fresh)])
        which = told.numbers.tolist()
        self._subscriptions.put_all(which, told.starts, np.array(numbers, np.int32)[told.indexes])
        if self._classes:
            classes = self._classes.rows()
            for number in which:
                classes.pop(number, None)
        if len(known) > 2 * self._names_kept + SPARE_NAMES:
            self._forget_names()

    def drop(self, number: int) -> None:
        """Remove a subscription."""
        del self._subscriptions.rows()[number]
        self._classes.rows().pop(number, None)

    def numbers(self) -> list[int]:
        """Return the numbers of the subscriptions, ascending."""
        return self._subscriptions.numbers()

    def classes(self) -> tuple[Int32s, Int32s]:
        """Return the topics of each subscription, by number and each ascending (CSR)."""
        numbers = self.numbers()
        if self._classes.numbers() != numbers:
            found = self._classes.rows()
            self._find([number for number in numbers if number not in found])
        return self._classes.laid(numbers)

    def _find(self, numbers: list[int]) -> None:
        """Look up the topics of these subscriptions, all at once."""
        starts, names = self._subscriptions.laid(numbers)
        listed = writable(self._topic_of[names])
        found, ends = sort_rows(listed, starts[1:].astype(np.int32), len(self._topic_index))
        self._classes.put_all(numbers, np.append(np.int32(0), ends), found)

    def _places(self, names: Sequence[str]) -> Int32s:
        index = self._topic_index
        return np.array([index.get(name, NOBODY) for name in names], np.int32)

    def _forget_names(self) -> None:
        """Renumber the names, without those that no subscription has."""
        names = list(self._names)
        numbers = self.numbers()
        starts, listed = self._subscriptions.laid(numbers)
        used, places = np.unique(listed, return_inverse=True)
        self._names = {names[number]: place for place, number in enumerate(used.tolist())}
        self._names_kept = len(used)
        self._topic_of = self._topic_of[used]
        self._subscriptions.clear()
        self._subscriptions.put_all(numbers, starts, places.astype(np.int32))


@kernel
def sort_rows(listed: Int32s, ends: Int32s, topics: int) -> tuple[Int32s, Int32s]:
    """Sort the topics of each row, without NOBODY; return them and the new ends of the rows.

    The entries are regrouped from rows to topics, and from topics to rows.
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
