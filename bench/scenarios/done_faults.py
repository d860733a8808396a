"""The faults that a run inflicted, and when it ended them. Pure; times count from its begin."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


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
    """The faults of a run so far."""

    _done: list[DoneFault] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._done)

    def began(self, at_ms: float, word: str, node: int) -> int:
        """Note that a fault has begun; return its number."""
        self._done.append(DoneFault(int(at_ms), word, node))
        return len(self._done) - 1

    def said(self, number: int) -> str:
        """Return a fault in words."""
        return str(self._done[number])

    def ended(self, number: int, at_ms: float) -> None:
        """Note that the run has ended a fault."""
        self._done[number] = replace(self._done[number], ended_ms=int(at_ms))

    def all(self) -> tuple[DoneFault, ...]:
        """Return all faults in the order in which they began."""
        return tuple(sorted(self._done, key=lambda each: each.at_ms))
