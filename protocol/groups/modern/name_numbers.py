"""Numbers for the topic names that a group's members subscribe to.

A subscription is a row of these numbers, so that a thousand subscriptions can be passed to an
assignor run without looking up each of their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from protocol.assignors.spec import Int32s


class NameNumbers:
    """``names`` by number; the number of a removed name ("" until reused) is used again."""

    __slots__ = ("_free", "_number", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._number: dict[str, int] = {}
        self._free: list[int] = []

    def add(self, name: str) -> None:
        """Assign a number to a name that has none yet."""
        if self._free:
            number = self._free.pop()
            self.names[number] = name
        else:
            number = len(self.names)
            self.names.append(name)
        self._number[name] = number

    def drop(self, name: str) -> None:
        """Release a name's number."""
        number = self._number.pop(name)
        self.names[number] = ""
        self._free.append(number)

    def row(self, names: Collection[str]) -> Int32s:
        """Return the numbers of those names that have one."""
        return np.fromiter(map(self._number.__getitem__, names), np.int32, len(names))
