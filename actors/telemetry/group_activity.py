"""How often single groups rebalance: in all, and lately."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS_MAX: Final = 10_000
"""The limit of groups; the one that has not rebalanced for longest is forgotten."""

PERIOD_S: Final = 300.0
"""Lately means in this period and in the one before."""


class GroupActivity:
    """Counts the rebalances of each group; a group that was forgotten begins at 0 again."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._totals: OrderedDict[str, int] = OrderedDict()
        self._recent: Counter[str] = Counter()
        self._before: Counter[str] = Counter()
        self._until_s = clock_s() + PERIOD_S

    def add(self, group_id: str, count: int) -> None:
        """Count rebalances of a group."""
        self._turn_over()
        self._totals[group_id] = self._totals.get(group_id, 0) + count
        self._totals.move_to_end(group_id)
        self._recent[group_id] += count
        if len(self._totals) > GROUPS_MAX:
            forgotten, _ = self._totals.popitem(last=False)
            self._recent.pop(forgotten, None)
            self._before.pop(forgotten, None)

    def total(self, group_id: str) -> int:
        """Return how often a group has rebalanced."""
        return self._totals.get(group_id, 0)

    def lately(self, group_id: str) -> int:
        """Return how often a group has rebalanced lately."""
        self._turn_over()
        return self._recent[group_id] + self._before[group_id]

    def _turn_over(self) -> None:
        now_s = self._clock_s()
        if now_s >= self._until_s:
            is_long_ago = now_s >= self._until_s + PERIOD_S
            self._before = Counter() if is_long_ago else self._recent
            self._recent = Counter()
            self._until_s = now_s + PERIOD_S
