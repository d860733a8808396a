"""Check that nobody is told to have what another member still has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.routing import partition_for
from failover.simulation.checkers.client_history import EARLY
from failover.simulation.checkers.ownership.observed import NEVER
from failover.simulation.event_log import Violation
from failover.simulation.kinds import STREAMS, allows_takeover

if TYPE_CHECKING:
    from collections.abc import Iterable

    from failover.simulation.checkers.client_history import ClientHistoryChecker
    from failover.simulation.checkers.ownership.observed import (
        GroupOwnership,
        ObservedMember,
        ObservedOwners,
        Place,
    )
    from failover.simulation.nodes.requests import SentAnswer


class Handover:
    """Checks what passes from one member to another, in groups of every type."""

    def __init__(self, owners: ObservedOwners, client_history: ClientHistoryChecker) -> None:
        self._owners = owners
        self._history = client_history

    def takes_place(self, observed: ObservedMember, answer: SentAnswer) -> None:
        """Check that a static member's place goes to another member only when it is free."""
        group = self._owners.group(answer.message.group_id)
        observed.replaced_at = NEVER
        if observed.instance_id is None:
            return
        for other in group.observed_members.values():
            if other is not observed and other.instance_id == observed.instance_id:
                for place in other.has:
                    self._may_lose(group, answer, other, place)
                if other.replaced_at == NEVER:
                    other.replaced_at = self._owners.world.now
                other.has.clear()
                other.asked_back.clear()
                other.kept = frozenset()

    def gives(self, observed: ObservedMember, answer: SentAnswer, places: Iterable[Place]) -> None:
        """Check that no other member has the partitions that a member is told to have."""
        if answer.asked_at < observed.said:
            return  # it has sent another request since, and ignores answers to the earlier one
        group, now = self._owners.group(answer.message.group_id), self._owners.world.now
        given = set(places)
        for place in sorted(given - observed.has.keys(), key=str):
            self._is_not_kept(group, answer, observed, place)
            for other in group.observed_members.values():
                if other is not observed and place in other.has:
                    self._may_lose(group, answer, other, place)
                    del other.has[place]
            observed.has[place] = now
        # An answer that was lost may have asked for it first.
        asked_at = answer.asked_at if observed.is_classic else observed.unheeded_since
        for place in observed.has:
            if place in given:
                observed.asked_back.pop(place, None)
            else:
                observed.asked_back.setdefault(place, asked_at)

    def _is_not_kept(
        self, group: GroupOwnership, answer: SentAnswer, observed: ObservedMember, place: Place
    ) -> None:
        """Check that a task of a static member that is away waits for its return."""
        settings, group_id = self._owners.world.settings, answer.message.group_id
        number = partition_for(group_id, settings.partitions)
        for other in group.observed_members.values():
            if other is observed or place not in other.kept or not group_id.startswith(STREAMS):
                continue
            unheard_ms = self._history.longest_unheard(number, other.contact)
            if unheard_ms < EARLY * settings.session_timeout_ms:
                raise Violation(
                    f"{self._owners.name(place)} is given away, when {other.instance_id} is away:"
                    f" no leader can have missed it for more than {unheard_ms} ms",
                    group_id,
                )
            other.kept -= {place}

    def _may_lose(
        self, group: GroupOwnership, answer: SentAnswer, other: ObservedMember, place: Place
    ) -> None:
        message, settings = answer.message, self._owners.world.settings
        number = partition_for(message.group_id, settings.partitions)
        if self._may_be_replaced(group, other, answer):
            return
        unheard_ms = self._history.longest_unheard(number, other.contact)
        if unheard_ms >= EARLY * settings.session_timeout_ms:
            return
        now = self._owners.world.now
        # Who does not give up one of them in time loses all.
        waited_ms = now - min(other.asked_back.values(), default=now)
        enough_ms = int(EARLY * settings.rebalance_timeout_ms)
        if waited_ms >= enough_ms:
            return
        if waited_ms and other.is_classic:
            # A classic group waits from the start of its rebalance; members hear of that later.
            asked_at, enough_ms = now - waited_ms, enough_ms - settings.heartbeat_interval_ms
            rounds = [*group.rounds, (group.changed_at, now if group.changed_at > NEVER else NEVER)]
            if any(end >= asked_at and end - began >= enough_ms for began, end in rounds):
                return
        raise Violation(
            f"{self._owners.name(place)} is given away, when {other.member_id} still has it: no"
            f" leader can have missed it for more than {unheard_ms} ms, and it was first asked for"
            f" something {waited_ms} ms ago",
            message.group_id,
        )

    def _may_be_replaced(
        self, group: GroupOwnership, other: ObservedMember, answer: SentAnswer
    ) -> bool:
        """Return whether a static member may have been replaced since its last successful request.

        The successor's request may wait while others are answered: if it is answered only now,
        that may have been at any time. A successor of the consumer protocol must wait for such a
        member to leave, unless the settings allow takeover.
        """
        message, asked_at = answer.message, answer.asked_at
        takes_over = other.is_classic or (
            self._owners.world.settings.takeover and allows_takeover(message.group_id)
        )
        return other.instance_id is not None and any(
            (
                challenge.at >= other.contact
                or (challenge.at, challenge.member_id) == (asked_at, message.member_id)
            )
            and challenge.member_id != other.member_id
            and (challenge.is_classic or takes_over)
            for challenge in group.challenges.get(other.instance_id, ())
        )
