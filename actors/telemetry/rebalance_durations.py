"""How long rebalances take, by the type of the group and by what triggered them."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from actors.telemetry.histograms import SLOW_S, Histogram
from protocol.groups.facts import (
    GroupConverted,
    GroupDeleted,
    GroupReconciled,
    MemberEvent,
    RebalanceEnded,
    RebalanceOutcome,
    TargetAssigned,
)

if TYPE_CHECKING:
    from protocol.groups.facts import Fact

RECONCILING_MAX: Final = 10_000
"""The limit of groups that may be reconciling; beyond it the oldest is not counted."""

NOT_KNOWN: Final = "not-known"
"""The trigger of a rebalance that another coordinator saw begin."""


class RebalanceDurations:
    """Counts rebalances that ended with all members; one that was begun again is counted once.

    That of a classic group lasts from its trigger until the leader's assignment; that of another
    one from the first change that its target did not have until every member has the target.
    """

    def __init__(self) -> None:
        self.histogram = Histogram(SLOW_S)
        self._begun: OrderedDict[str, TargetAssigned] = OrderedDict()

    def observe(self, fact: Fact) -> None:
        """Count the rebalance that ends with a fact, if one does."""
        match fact:
            case RebalanceEnded(outcome=RebalanceOutcome.STABLE):
                began_ms, ended_ms = fact.phases[0].started_ms, fact.phases[-1].ended_ms
                self._add(ended_ms - began_ms, "classic", fact.trigger)
            case TargetAssigned():
                self._begun.setdefault(fact.group_id, fact)
                if len(self._begun) > RECONCILING_MAX:
                    self._begun.popitem(last=False)
            case GroupReconciled():
                begun = self._begun.pop(fact.group_id, None)
                if begun is not None and fact.members:
                    passed_ms = fact.time_ms - begun.changed_ms
                    self._add(passed_ms, begun.group_type, trigger_of(begun))
            case GroupDeleted() | GroupConverted():
                self._begun.pop(fact.group_id, None)

    def _add(self, passed_ms: int, group_type: str, trigger: str) -> None:
        self.histogram.add(max(passed_ms, 0) / 1000, group_type, trigger)


def trigger_of(fact: TargetAssigned) -> str:
    """Return what moved the group's epoch, in the words of traces."""
    cause = fact.cause
    if isinstance(cause, MemberEvent):
        return f"member-{cause.kind}"
    return str(cause) if cause is not None else NOT_KNOWN
