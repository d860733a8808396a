"""Check that no member commits for what another one has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from failover.simulation.checkers.ownership.observed import NEVER, by_name
from failover.simulation.event_log import Violation
from failover.simulation.kinds import subtopology_of
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from failover.simulation.checkers.client_history import ClientHistoryChecker
    from failover.simulation.checkers.ownership.observed import (
        ObservedMember,
        ObservedOwners,
        Place,
    )
    from failover.simulation.checkers.values import Values
    from failover.simulation.nodes.process import Process
    from failover.simulation.nodes.requests import SentAnswer

OK: Final = ErrorCode.none


class CommitAnswers:
    """Checks answers to commits in groups of every type."""

    def __init__(
        self, owners: ObservedOwners, client_history: ClientHistoryChecker, values: Values
    ) -> None:
        self._owners = owners
        self._history = client_history
        self._values = values

    def committed(self, process: Process, answer: SentAnswer) -> None:
        """Check that who committed has the partition, or that nobody else has it."""
        message = answer.message
        for code in self._history.committed(answer):
            self._history.speaks(process, message.group_id, code)
        observed = self._owners.observed(message, message.member_id)
        unknown = self._owners.group(message.group_id).unknown
        for topic in answer.response.topics:
            if NEVER < observed.replaced_at < answer.asked_at:
                self._is_refused(observed, answer, topic.partitions)
            known = by_name(process, topic.name)
            # A commit names topics by name: if a topic was deleted and created again, its sender
            # may mean the topic that it still has.
            is_ambiguous = self._values.was_deleted(topic.name) or topic.name in unknown
            for row in topic.partitions:
                if row.error_code is OK and known is not None and not is_ambiguous:
                    unit = subtopology_of(message.group_id, topic.name)
                    self._is_owner(observed, answer, (unit or known.topic_id, row.partition_index))

    def _is_refused(
        self, observed: ObservedMember, answer: SentAnswer, rows: Iterable[Any]
    ) -> None:
        """Check that no static member commits whose place another one has taken."""
        if any(row.error_code is OK for row in rows):
            raise Violation(
                f"{observed.member_id} commits, though {observed.instance_id} is another member",
                answer.message.group_id,
            )

    def _is_owner(self, observed: ObservedMember, answer: SentAnswer, place: Place) -> None:
        """Check that no member commits for a partition that another member was told to have."""
        group_id = answer.message.group_id
        if place in observed.has:
            return
        for other in self._owners.group(group_id).observed_members.values():
            if other.has.get(place, self._owners.world.now) < answer.asked_at:
                raise Violation(
                    f"{observed.member_id} commits for {self._owners.name(place)}, which is"
                    f" {other.member_id}'s",
                    group_id,
                )
