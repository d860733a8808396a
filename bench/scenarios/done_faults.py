"""The faults that a run inflicted, and when it ended them. Pure; times count from its begin."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class DoneFault:
    """One fault of a node; ``word``: what was done.

    ``ended_ms`` is None if the run did not end it: a node that is killed comes back by itself.
    """

    at_ms: int
    word: str
    node: int
    ended_ms: int | None = None

    def __str__(self) -> str:
        return f"{self.word} node {self.node}"


@dataclass(slots=True)
class FaultLog:
    """The faults of a run so far; several threads may note some."""

    _done: dict[int, DoneFault] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def began(self, at_ms: float, word: str, node: int) -> int:
        """Note that a fault has begun; return its number."""
        number = next(self._numbers)
        self._done[number] = DoneFault(int(at_ms), word, node)
        return number

    def ended(self, number: int, at_ms: float) -> None:
        """Note that the run has ended a fault."""
        self._done[number] = replace(self._done[number], ended_ms=int(at_ms))

    def all(self) -> tuple[DoneFault, ...]:
        """Return all faults in the order in which they began."""
        return tuple(sorted(self._done.values(), key=lambda each: each.at_ms))
