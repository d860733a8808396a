"""How long rebalances take, by the type of the group and by what caused them.

The causes are those of stories: a member that left because its application did not poll, or that an
administrator removed, is told from one that left.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeVar

from actors.telemetry.histograms import SLOW_S, Histogram
from protocol.groups.facts import (
    GroupConverted,
    GroupDeleted,
    GroupReconciled,
    RebalanceEnded,
    RebalanceOutcome,
    TargetAssigned,
)
from protocol.stories.causes import of_target, of_trigger

if TYPE_CHECKING:
    from protocol.groups.facts import Fact
    from protocol.stories.causes import Cause

V = TypeVar("V")

RECONCILING_MAX: Final = 10_000
"""The limit of groups that may be reconciling; beyond it the oldest is not counted."""


class RebalanceDurations:
    """Counts rebalances that ended with all members; one that was begun again is counted once.

    That of a classic group lasts from its trigger until the leader's assignment; that of another
    one from the first change that its target did not have until every member has the target.
    """

    def __init__(self) -> None:
        self.histogram = Histogram(SLOW_S)
        self._begun: OrderedDict[str, tuple[int, str, Cause]] = OrderedDict()
        self._converted: OrderedDict[str, None] = OrderedDict()

    def observe(self, fact: Fact) -> None:
        """Count the rebalance that ends with a fact, if one does."""
        match fact:
            case RebalanceEnded(outcome=RebalanceOutcome.STABLE):
                began_ms, ended_ms = fact.phases[0].started_ms, fact.phases[-1].ended_ms
                self._add(ended_ms - began_ms, "classic", of_trigger(fact.trigger, fact.reason))
            case TargetAssigned():
                is_converted = self._converted.pop(fact.group_id, 0) is None
                if fact.group_id not in self._begun:
                    cause = of_target(fact, is_converted=is_converted)
                    _put(self._begun, fact.group_id, (fact.changed_ms, fact.group_type, cause))
            case GroupReconciled():
                found = self._begun.pop(fact.group_id, None)
                if found is not None and fact.members:
                    changed_ms, group_type, cause = found
                    self._add(fact.time_ms - changed_ms, group_type, cause)
            case GroupDeleted():
                self._begun.pop(fact.group_id, None)
                self._converted.pop(fact.group_id, None)
            case GroupConverted():
                self._begun.pop(fact.group_id, None)
                _put(self._converted, fact.group_id, None)

    def _add(self, passed_ms: int, group_type: str, cause: Cause) -> None:
        self.histogram.add(max(passed_ms, 0) / 1000, group_type, cause.value)


def _put(kept: OrderedDict[str, V], group_id: str, value: V) -> None:
    """Keep a value for a group; beyond the limit the oldest makes room."""
    kept[group_id] = value
    if len(kept) > RECONCILING_MAX:
        kept.popitem(last=False)
