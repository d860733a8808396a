"""Note what members say that they no longer have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from failover.simulation.checkers.ownership.observed import NEVER, Challenge, by_name, places
from failover.simulation.kinds import tasks_in
from protocol.wire import messages as m
from protocol.wire.embedded import decode_assignment, decode_subscription
from protocol.wire.streams_messages import StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kio.static.protocol import Entity

    from failover.simulation.checkers.ownership.observed import ObservedOwners, Place
    from failover.simulation.checkers.shares import ShareAssignments
    from failover.simulation.nodes.process import Process

AWAY: Final = -2
"""The epoch with which a static member leaves for a while."""


class OwnershipRequests:
    """Follows the requests of members of all groups."""

    def __init__(self, owners: ObservedOwners, shares: ShareAssignments) -> None:
        self._owners = owners
        self._shares = shares

    def asked(self, process: Process, message: Entity) -> None:
        """Note what the sender of a request no longer has."""
        if isinstance(message, m.ConsumerGroupHeartbeatRequest):
            owned = message.topic_partitions
            self._heard(message, None if owned is None else places(owned))
        elif isinstance(message, StreamsGroupHeartbeatRequest):
            active = message.active_tasks
            self._heard(message, None if active is None else tasks_in(active))
        elif isinstance(message, m.ShareGroupHeartbeatRequest):
            self._shares.asked(message, self._owners.world.now)
        elif isinstance(message, m.SyncGroupRequest):
            self._shares_out(process, message)
        elif isinstance(message, m.JoinGroupRequest):
            self._owners.group(message.group_id).note_change(self._owners.world.now)
            self._joins(process, message)
        elif isinstance(message, m.LeaveGroupRequest):
            self._owners.group(message.group_id).note_change(self._owners.world.now)
            for member in message.members:
                observed = self._owners.observed(message, member.member_id)
                observed.is_gone = True
                self._owners.gives_up(observed, ())

    def _heard(self, message: Any, owned: Iterable[Place] | None) -> None:
        observed = self._owners.observed(message, message.member_id)
        observed.instance_id = message.instance_id
        observed.is_gone = message.member_epoch < 0
        if message.member_epoch == AWAY and observed.heard == NEVER:
            observed.kept = frozenset(observed.has.keys() - observed.asked_back.keys())
        observed.heard = self._owners.world.now
        if observed.is_answered:
            observed.unheeded_since, observed.is_answered = observed.heard, False
        if observed.is_gone:
            self._owners.gives_up(observed, ())
        elif owned is not None:
            self._owners.gives_up(observed, owned)
        if message.member_epoch == 0:
            observed.unknown_at = NEVER
        if message.member_epoch == 0 and message.instance_id is not None:
            self._challenges(message, message.instance_id, is_classic=False)

    def _joins(self, process: Process, message: Any) -> None:
        """Note a classic member that joins: it has nothing but what it says that it owns."""
        if message.member_id:
            told = (decode_subscription(each.metadata) for each in message.protocols)
            kept = [
                (name if topic is None else topic.topic_id, index)
                for each in told
                if each is not None
                for name, index in each.owned_partitions
                for topic in (by_name(process, name),)
            ]
            self._owners.gives_up(self._owners.observed(message, message.member_id), kept)
        elif message.group_instance_id is not None:
            self._challenges(message, message.group_instance_id, is_classic=True)

    def _shares_out(self, process: Process, message: Any) -> None:
        """Note which topics of a classic leader's assignment the coordinator does not know."""
        if message.assignments:
            decoded = [decode_assignment(row.assignment) or () for row in message.assignments]
            names = {name for assigned in decoded for name, _ in assigned}
            unknown = {name for name in names if by_name(process, name) is None}
            self._owners.group(message.group_id).unknown = unknown

    def _challenges(self, message: Any, instance_id: str, *, is_classic: bool) -> None:
        known = self._owners.group(message.group_id).challenges.setdefault(instance_id, [])
        known.append(Challenge(message.member_id, is_classic, self._owners.world.now))
