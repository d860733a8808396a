"""Check what heartbeats of consumer, share and streams groups answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.routing import partition_for
from failover.simulation.checkers.client_history import EARLY
from failover.simulation.checkers.ownership.observed import NEVER, places
from failover.simulation.event_log import Violation
from failover.simulation.kinds import tasks_in
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from failover.simulation.checkers.client_history import ClientHistoryChecker
    from failover.simulation.checkers.ownership.epochs import Epochs
    from failover.simulation.checkers.ownership.handover import Handover
    from failover.simulation.checkers.ownership.observed import (
        ObservedMember,
        ObservedOwners,
        Place,
    )
    from failover.simulation.checkers.shares import ShareAssignments
    from failover.simulation.nodes.process import Process
    from failover.simulation.nodes.requests import SentAnswer

OK: Final = ErrorCode.none


class ModernAnswers:
    """Checks answers to members of the consumer, share and streams protocols."""

    def __init__(
        self,
        owners: ObservedOwners,
        client_history: ClientHistoryChecker,
        epochs: Epochs,
        handover: Handover,
        shares: ShareAssignments,
    ) -> None:
        self._owners = owners
        self._history = client_history
        self._epochs = epochs
        self._handover = handover
        self._shares = shares

    def heartbeat(self, process: Process, answer: SentAnswer) -> None:
        """Check the partitions of a consumer group's member."""
        observed = self._member(process, answer)
        assignment = answer.response.assignment
        if observed is not None and assignment is not None:
            topics = assignment.topic_partitions
            self._owners.learn(process, topics)
            self._handover.gives(observed, answer, places(topics))

    def streams_heartbeat(self, process: Process, answer: SentAnswer) -> None:
        """Check the active tasks of a streams group's member."""
        observed = self._member(process, answer)
        active = answer.response.active_tasks
        if observed is None or active is None:
            return
        given, epoch = frozenset(tasks_in(active)), answer.response.member_epoch
        if answer.message.member_epoch == 0:
            self._keeps_its_tasks(observed, answer, given)
        self._handover.gives(observed, answer, given)
        observed.told = (epoch, given)

    def share_heartbeat(self, process: Process, answer: SentAnswer) -> None:
        """Check the partitions of a share group's member."""
        message, response = answer.message, answer.response
        self._history.speaks(process, message.group_id, response.error_code)
        if response.error_code is OK and response.assignment is not None:
            self._owners.learn(process, response.assignment.topic_partitions)
        self._shares.answered(process, answer, self._owners.world.now)

    def _member(self, process: Process, answer: SentAnswer) -> ObservedMember | None:
        """Check what all answers to heartbeats say; None: the member is not in the group."""
        message, response = answer.message, answer.response
        code = response.error_code
        self._history.speaks(process, message.group_id, code)
        if code is ErrorCode.unknown_member_id and message.member_epoch > 0:
            self._owners.observed(message, message.member_id).unknown_at = self._owners.world.now
        if code is not OK or message.member_epoch < 0:
            return None
        observed = self._owners.observed(message, response.member_id)
        observed.is_classic, observed.instance_id = False, message.instance_id
        observed.contact = max(observed.contact, answer.asked_at)
        if observed.heard == answer.asked_at:
            observed.heard, observed.is_answered = NEVER, True
        is_join = message.member_epoch == 0
        if is_join:
            observed.kept = frozenset()
        else:
            self._may_go_on(observed, answer)
        self._epochs.told(observed, answer, response.member_epoch, is_join)
        if is_join:
            self._handover.takes_place(observed, answer)
        return observed

    def _may_go_on(self, observed: ObservedMember, answer: SentAnswer) -> None:
        """Check that a member that lost its place is not in the group unless it joins again."""
        if observed.member_id != answer.message.member_id:
            raise Violation(
                f"{answer.message.member_id} is answered as {observed.member_id}",
                answer.message.group_id,
            )
        if NEVER < observed.unknown_at < answer.asked_at:
            raise Violation(
                f"{observed.member_id} is in the group again without a join: it was unknown",
                answer.message.group_id,
            )
        if NEVER < observed.replaced_at < answer.asked_at:
            raise Violation(
                f"{observed.member_id} is answered OK, though {observed.instance_id} is another"
                " member",
                answer.message.group_id,
            )

    def _keeps_its_tasks(
        self, observed: ObservedMember, answer: SentAnswer, given: frozenset[Place]
    ) -> None:
        """Check that a static member that returns in the same epoch has the same active tasks.

        One that was away for longer than its session may have been removed: then it is a new one.
        """
        if observed.instance_id is None:
            return
        group, epoch = self._owners.group(answer.message.group_id), answer.response.member_epoch
        settings = self._owners.world.settings
        number = partition_for(answer.message.group_id, settings.partitions)
        for other in group.observed_members.values():
            told_epoch, tasks = other.told
            is_same = other is not observed and other.instance_id == observed.instance_id
            unheard_ms = self._history.longest_unheard(number, other.contact)
            is_same &= unheard_ms < EARLY * settings.session_timeout_ms
            if is_same and told_epoch == epoch and not tasks <= given:
                lost = sorted(tasks - given, key=str)
                raise Violation(
                    f"{observed.instance_id} returns in epoch {epoch} and has lost {lost}",
                    answer.message.group_id,
                )
