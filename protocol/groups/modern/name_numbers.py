"""Numbers for the topic names that a group's members subscribe to.

A subscription is a row of such numbers: an assignor's run is told of a thousand subscriptions
without looking up each of their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from protocol.assignors.spec import Int32s


class NameNumbers:
    """``names`` are listed by number; the number of a name that went ("" until then) is reused."""

    __slots__ = ("_free", "_number", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._number: dict[str, int] = {}
        self._free: list[int] = []

    def add(self, name: str) -> None:
        """Give a name a number; it has none yet."""
        if self._free:
            number = self._free.pop()
            self.names[number] = name
        else:
            number = len(self.names)
            self.names.append(name)
        self._number[name] = number

    def drop(self, name: str) -> None:
        """Take a name's number back."""
        number = self._number.pop(name)
        self.names[number] = ""
        self._free.append(number)

    def row(self, names: Collection[str]) -> Int32s:
        """Give the numbers of names that have one."""
        return np.fromiter(map(self._number.__getitem__, names), np.int32, len(names))
