"""Check that the epochs that members are told only grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.routing import partition_for
from failover.simulation.checkers.client_history import EARLY
from failover.simulation.checkers.ownership.observed import NEVER
from failover.simulation.event_log import Violation

if TYPE_CHECKING:
    from failover.simulation.checkers.client_history import ClientHistoryChecker
    from failover.simulation.checkers.ownership.observed import (
        GroupOwnership,
        ObservedMember,
        ObservedOwners,
    )
    from failover.simulation.nodes.requests import SentAnswer


class Epochs:
    """Checks the epochs of groups of every type; a classic group's is its generation."""

    def __init__(self, owners: ObservedOwners, client_history: ClientHistoryChecker) -> None:
        self._owners = owners
        self._history = client_history

    def told(
        self,
        observed: ObservedMember,
        answer: SentAnswer,
        epoch: int,
        is_join: bool,
        *,
        is_lasting: bool = True,
    ) -> None:
        """Check that epochs only grow: a member's own, and the group's as joiners see it."""
        group = self._owners.group(answer.message.group_id)
        highest = group.highest_before(answer.asked_at) if is_join else 0
        if epoch < highest and self._may_be_new(group, observed, answer.message.group_id):
            group.epochs.clear()
            highest = 0
            for each in group.observed_members.values():
                each.epoch = 0
        if epoch < observed.epoch and observed.epoch_at < answer.asked_at:
            raise Violation(
                f"{observed.member_id} is told epoch {epoch}, after epoch {observed.epoch}",
                answer.message.group_id,
            )
        if epoch < highest:
            raise Violation(
                f"{observed.member_id} joins in epoch {epoch}, when {highest} had been told before",
                answer.message.group_id,
            )
        if is_lasting and epoch > observed.epoch:
            observed.epoch, observed.epoch_at = epoch, self._owners.world.now
        if not group.epochs or epoch > group.epochs[-1][1]:
            if is_lasting:
                group.epochs.append((self._owners.world.now, epoch))
            if group.changed_at != NEVER:
                group.rounds.append((group.changed_at, self._owners.world.now))
                group.changed_at = NEVER

    def _may_be_new(self, group: GroupOwnership, observed: ObservedMember, group_id: str) -> bool:
        """Return whether a joining member may have found no members, or no group.

        There are none when all others left, or were silent for a session timeout. The member may
        then set the group's type, and a group without offsets may have been deleted.
        """
        number = partition_for(group_id, self._owners.world.settings.partitions)
        enough_ms = EARLY * self._owners.world.settings.session_timeout_ms
        return all(
            other.is_gone or self._history.longest_unheard(number, other.contact) >= enough_ms
            for other in group.observed_members.values()
            if other is not observed
        )
