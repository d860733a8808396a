"""A coordinator's groups in numbers: how many there are, and how often they rebalance.

The names are Kafka's where Kafka has the metric. Values are counted on the event loop; exporters
may read them in any thread.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

from actors.metrics.names import (
    GROUP_COUNT,
    GROUP_MEMBERS,
    GROUP_REBALANCES,
    GROUP_REBALANCING,
    GROUP_STATE,
    GROUP_TYPES,
    GROUPS_LEFT_OUT,
    MEMBERS_LEFT_OUT,
    REBALANCE_DURATION,
)
from actors.telemetry.group_activity import GroupActivity
from actors.telemetry.rebalance_durations import RebalanceDurations
from failover.group_counts import GroupCounts
from protocol.groups.facts import RebalanceEnded, RebalanceOutcome, TargetAssigned
from protocol.reasons import reason
from protocol.stories.story import GROUP_ID_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.telemetry.histograms import Histogram
    from protocol.groups.facts import Fact
    from protocol.groups.shard import GroupShard

_log = logging.getLogger("rollcall.telemetry")

WINDOW_S: Final = 60
"""The window of rates: the last minute."""

CLASSIC: Final = "classic"
AT_REST: Final = frozenset({"Empty", "Stable", "Dead", "NotReady"})
"""The states of groups that do not rebalance."""


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
        self._activity = GroupActivity(clock_s)
        self._counts = GroupCounts(self._activity.lately)
        self._durations = RebalanceDurations()
        self._rebalances: Counter[str] = Counter()
        self._rates = {row.group_type: RecentRate(clock_s) for row in GROUP_TYPES}

    def observe(self, fact: Fact) -> None:
        """Count a completed rebalance of a classic group, or the epochs of a new target."""
        self._durations.observe(fact)
        match fact:
            case RebalanceEnded(outcome=RebalanceOutcome.STABLE):
                self._add(fact.group_id, CLASSIC, 1)
            case TargetAssigned():
                count = fact.epoch_after - fact.epoch_before
                self._add(fact.group_id, fact.group_type, count)

    def _add(self, group_id: str, group_type: str, count: int) -> None:
        self._rebalances[group_type] += count
        self._rates[group_type].add(count)
        self._activity.add(group_id, count)

    def count(self, shards: Iterable[GroupShard], shown_max: int = 0) -> None:
        """Count a slice of the groups of ``shards``; call it about twice a second.

        The ``shown_max`` most active groups are shown one by one.
        """
        try:
            self._counts.count(shards, ranked_max=shown_max)
        except Exception as error:
            self._counts = GroupCounts(self._activity.lately)
            _log.warning("the groups could not be counted: %s", reason(error))

    def histograms(self) -> dict[str, Histogram]:
        """Return what is counted in buckets."""
        return {REBALANCE_DURATION: self._durations.histogram}

    def rebalances(self, group_id: str) -> tuple[int, int]:
        """Return how often a group has rebalanced here, in all and lately."""
        return self._activity.total(group_id), self._activity.lately(group_id)

    def status(self) -> dict[str, Any]:
        """Return all metrics as plain values."""
        found: dict[str, Any] = {GROUP_COUNT: {}, **self._shown()}
        found |= {name: each.status() for name, each in self.histograms().items()}
        counts = self._counts.last
        for row in GROUP_TYPES:
            name = row.group_type
            by_state = {state: counts.get((name, state), 0) for state in row.states}
            found[GROUP_COUNT][name] = sum(n for (each, _), n in counts.items() if each == name)
            found[row.count_key] = by_state
            found[row.rebalances_key] = self._rebalances[name]
            found[row.rebalance_rate_key] = round(self._rates[name].per_second(), 3)
        return found

    def _shown(self) -> dict[str, Any]:
        """Return the rows of the most active groups: their labels, and a value.

        Groups with ids of more than ``GROUP_ID_MAX`` characters are left out, as in stories.
        """
        counts = self._counts
        shown = [each for each in counts.ranked if len(each.group_id) <= GROUP_ID_MAX]
        return {
            GROUP_MEMBERS: [[each.group_id, each.members] for each in shown],
            GROUP_STATE: [[each.group_id, each.group_type, each.state, 1] for each in shown],
            GROUP_REBALANCING: [[each.group_id, int(each.state not in AT_REST)] for each in shown],
            GROUP_REBALANCES: [
                [each.group_id, self._activity.total(each.group_id)] for each in shown
            ],
            GROUPS_LEFT_OUT: max(sum(counts.last.values()) - len(shown), 0),
            MEMBERS_LEFT_OUT: max(counts.members - sum(each.members for each in shown), 0),
        }
