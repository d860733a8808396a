"""Check at every answer who owns which partition or active task, where only one member may.

A member owns a partition from the answer that assigns it until the request that no longer lists it,
or that leaves the group. Until then no other member may be told that it has the partition, unless
the coordinator may have expelled the member: it has not heard from it for a session timeout, or
asked for the partition back a rebalance timeout ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.simulation.checkers.ownership.classic import ClassicAnswers
from failover.simulation.checkers.ownership.commits import CommitAnswers
from failover.simulation.checkers.ownership.epochs import Epochs
from failover.simulation.checkers.ownership.handover import Handover
from failover.simulation.checkers.ownership.modern import ModernAnswers
from failover.simulation.checkers.ownership.observed import ObservedOwners
from failover.simulation.checkers.ownership.requests import OwnershipRequests
from failover.simulation.checkers.shares import ShareAssignments
from protocol.wire import messages as m
from protocol.wire.streams_messages import StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity

    from failover.simulation.checkers.client_history import ClientHistoryChecker
    from failover.simulation.checkers.values import Values
    from failover.simulation.nodes.process import Process
    from failover.simulation.nodes.requests import SentAnswer
    from failover.simulation.world import World


class OwnershipChecker:
    """Checks answers in groups that may have members of the consumer protocol.

    ``owners`` has what the members have.
    """

    def __init__(self, world: World, client_history: ClientHistoryChecker, values: Values) -> None:
        self.owners = ObservedOwners(world)
        self._shares = ShareAssignments()
        self._requests = OwnershipRequests(self.owners, self._shares)
        epochs = Epochs(self.owners, client_history)
        handover = Handover(self.owners, client_history)
        modern = ModernAnswers(self.owners, client_history, epochs, handover, self._shares)
        classic = ClassicAnswers(self.owners, client_history, epochs, handover)
        commits = CommitAnswers(self.owners, client_history, values)
        self._checks: Mapping[type, Callable[[Process, SentAnswer], None]] = {
            m.ConsumerGroupHeartbeatRequest: modern.heartbeat,
            StreamsGroupHeartbeatRequest: modern.streams_heartbeat,
            m.ShareGroupHeartbeatRequest: modern.share_heartbeat,
            m.HeartbeatRequest: classic.heartbeat,
            m.JoinGroupRequest: classic.join,
            m.SyncGroupRequest: classic.sync,
            m.OffsetCommitRequest: commits.committed,
        }

    def forget(self) -> None:
        """Note that all groups are gone."""
        self.owners.forget()
        self._shares.forget()

    def asked(self, process: Process, message: Entity) -> None:
        """Note what the sender of a request no longer has."""
        self._requests.asked(process, message)

    def answered(self, process: Process, answer: SentAnswer) -> None:
        """Check an answer."""
        check = self._checks.get(type(answer.message))
        if check is not None:
            check(process, answer)
