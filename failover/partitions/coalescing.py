"""Groups whose record is delayed because more requests will rewrite it.

A classic group's record contains all its members. When N static members return together, each of
them rewrites the record, and a turn serves only some of them. So the record, and the answers that
wait for it, are held for several turns while more of the group's requests are next in the queue:
until N / 16 have rewritten it, or for :data:`RUN_MS`. Other groups continue meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

PARTS_PER_REWRITE: Final = 16
"""A record of N parts is written once per N / 16 requests: each costs 16 parts, for any N."""

RUN_MS: Final = 100
"""The longest time that a record waits for more requests of its group."""


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
        """Return the groups whose records wait; call it after :meth:`settle`."""
        return self._runs.keys()

    def served(self, group_id: str, parts: int, following: int, now: int) -> None:
        """Note that a request of a group was served.

        ``parts`` is how many parts of the record it rewrites (0: none); ``following`` is how many
        requests of the group are next in the queue.
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
        """At the end of a turn, end the runs that are long enough; their records are written."""
        for group_id, run in list(self._runs.items()):
            if run.left <= 0 or run.until_ms <= now:
                del self._runs[group_id]

    def end(self) -> None:
        """End all runs: their records are written with the next batch."""
        self._runs.clear()

    def next_deadline(self) -> int | None:
        """Return when to call :meth:`settle` next, None for not at all (Unix ms)."""
        return min((run.until_ms for run in self._runs.values()), default=None)
