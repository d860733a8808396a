"""Which groups wait with their record for more requests that rewrite it.

A classic group's record has all its members in it. When N static members come back together, each
rewrites it, and a turn serves only some of them. So the record, and the answers that wait for it,
are kept over several turns while more of the group's requests wait right behind: until N / 16 have
rewritten it, or for :data:`RUN_MS`. Other groups' turns go on meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

PARTS_PER_REWRITE: Final = 16
"""A record of N parts is written once for N / 16 requests: each costs 16 parts, whatever N is."""

RUN_MS: Final = 100
"""No record waits longer than this for more requests of its group."""


@dataclass(slots=True)
class _Run:
    left: int
    until_ms: int


class Runs:
    """The groups of one partition whose record is not written yet."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def groups(self) -> Collection[str]:
        """The groups whose records wait; ask after :meth:`settle`."""
        return self._runs.keys()

    def served(self, group_id: str, parts: int, following: int, now: int) -> None:
        """Learn that a request of a group was served.

        ``parts`` are those of the record that it rewrites (0: none); ``following`` requests of the
        group wait right behind it.
        """
        run = self._runs.get(group_id)
        if run is None:
            left = parts // PARTS_PER_REWRITE - 1
            if following and left > 0:
                self._runs[group_id] = _Run(left, now + RUN_MS)
            return
        if parts:
            run.left -= 1
        if not following:
            run.left = 0

    def settle(self, now: int) -> None:
        """At the end of a turn, end the runs that are long enough: their records are written."""
        for group_id, run in list(self._runs.items()):
            if run.left <= 0 or run.until_ms <= now:
                del self._runs[group_id]

    def end(self) -> None:
        """End all runs: their records are written with the next ones."""
        self._runs.clear()

    def next_deadline(self) -> int | None:
        """When :meth:`settle` is wanted next, if at all (Unix ms)."""
        return min((run.until_ms for run in self._runs.values()), default=None)
