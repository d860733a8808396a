"""A coordinator's groups in numbers: how many of each type and state, and how often they rebalance.

The names are Kafka's where Kafka has the metric. Values are counted on the event loop; exporters
may read them in any thread.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

from actors.telemetry.metric_table import GROUP_COUNT, GROUP_TYPES
from failover.group_counts import GroupCounts
from protocol.groups.facts import RebalanceEnded, RebalanceOutcome, TargetAssigned
from protocol.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from protocol.groups.facts import Fact
    from protocol.groups.shard import GroupShard

_log = logging.getLogger("rollcall.telemetry")

WINDOW_S: Final = 60
"""The window of rates: the last minute."""

CLASSIC: Final = "classic"


class RecentRate:
    """How often something happened per second in the last minute, in buckets of a second."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._began_s = clock_s()
        self._buckets: deque[tuple[int, int]] = deque(maxlen=WINDOW_S + 1)

    def add(self, count: int) -> None:
        """Count what happened now."""
        second = int(self._clock_s())
        if self._buckets and self._buckets[-1][0] == second:
            count += self._buckets.pop()[1]
        self._buckets.append((second, count))

    def per_second(self) -> float:
        """Return the rate; since the start if that was less than a minute ago."""
        now_s = self._clock_s()
        recent = sum(count for second, count in tuple(self._buckets) if second > now_s - WINDOW_S)
        return recent / min(max(now_s - self._began_s, 1.0), WINDOW_S)


class GroupMetrics:
    """The groups that one coordinator leads."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._counts = GroupCounts()
        self._rebalances: Counter[str] = Counter()
        self._rates = {row.group_type: RecentRate(clock_s) for row in GROUP_TYPES}

    def observe(self, fact: Fact) -> None:
        """Count a completed rebalance of a classic group, or the epochs of a new target."""
        match fact:
            case RebalanceEnded(outcome=RebalanceOutcome.STABLE):
                self._add(CLASSIC, 1)
            case TargetAssigned():
                self._add(fact.group_type, fact.epoch_after - fact.epoch_before)

    def _add(self, group_type: str, count: int) -> None:
        self._rebalances[group_type] += count
        self._rates[group_type].add(count)

    def count(self, shards: Iterable[GroupShard]) -> None:
        """Count a slice of the groups of ``shards``; call it about twice a second."""
        try:
            self._counts.count(shards)
        except Exception as error:
            self._counts = GroupCounts()
            _log.warning("the groups could not be counted: %s", reason(error))

    def status(self) -> dict[str, Any]:
        """Return all metrics as plain values."""
        found: dict[str, Any] = {GROUP_COUNT: {}}
        counts = self._counts.last
        for row in GROUP_TYPES:
            name = row.group_type
            by_state = {state: counts.get((name, state), 0) for state in row.states}
            found[GROUP_COUNT][name] = sum(n for (each, _), n in counts.items() if each == name)
            found[row.count_key] = by_state
            found[row.rebalances_key] = self._rebalances[name]
            found[row.rebalance_rate_key] = round(self._rates[name].per_second(), 3)
        return found
