"""Check what members of the classic protocol are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.simulation.checkers.modern_states import reconciles
from failover.simulation.checkers.ownership.observed import by_name
from failover.simulation.kinds import subtopology_of
from protocol.wire.embedded import decode_assignment
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from failover.simulation.checkers.client_history import ClientHistoryChecker
    from failover.simulation.checkers.ownership.epochs import Epochs
    from failover.simulation.checkers.ownership.handover import Handover
    from failover.simulation.checkers.ownership.observed import ObservedOwners
    from failover.simulation.nodes.process import Process
    from failover.simulation.nodes.requests import SentAnswer

OK: Final = ErrorCode.none


class ClassicAnswers:
    """Checks answers to members of the classic protocol, in groups that may have others too."""

    def __init__(
        self,
        owners: ObservedOwners,
        client_history: ClientHistoryChecker,
        epochs: Epochs,
        handover: Handover,
    ) -> None:
        self._owners = owners
        self._history = client_history
        self._epochs = epochs
        self._handover = handover

    def heartbeat(self, process: Process, answer: SentAnswer) -> None:
        """Note that a member is in its group, and is asked for what it has in a rebalance."""
        message, code = answer.message, answer.response.error_code
        self._history.speaks(process, message.group_id, code)
        observed = self._owners.observed(message, message.member_id)
        if code in (OK, ErrorCode.rebalance_in_progress):
            observed.contact = max(observed.contact, answer.asked_at)
        if code is ErrorCode.rebalance_in_progress:
            self._owners.group(message.group_id).note_change(answer.asked_at)
            for place in observed.has:
                observed.asked_back.setdefault(place, answer.asked_at)

    def join(self, process: Process, answer: SentAnswer) -> None:
        """Check the generation and the place of a member that joined."""
        message, response = answer.message, answer.response
        code = response.error_code
        self._history.speaks(process, message.group_id, code)
        if code is not OK:
            return
        observed = self._owners.observed(message, response.member_id)
        observed.is_classic, observed.instance_id = True, message.group_instance_id
        observed.contact = max(observed.contact, answer.asked_at)
        # Another leader may not know a classic group's generation until it is synced.
        is_lasting = reconciles(process.group(message.group_id))
        # A cooperative member stays in its epoch until it has given up what it loses (KIP-848).
        begins = not observed.has
        self._epochs.told(observed, answer, response.generation_id, begins, is_lasting=is_lasting)
        self._handover.takes_place(observed, answer)

    def sync(self, process: Process, answer: SentAnswer) -> None:
        """Check the assignment that a member is told."""
        message, response = answer.message, answer.response
        code = response.error_code
        self._history.speaks(process, message.group_id, code)
        if code is not OK:
            return
        observed = self._owners.observed(message, message.member_id)
        self._epochs.told(observed, answer, message.generation_id, False)
        places = []
        for name, index in decode_assignment(response.assignment) or ():
            topic, unit = by_name(process, name), subtopology_of(message.group_id, name)
            places.append((unit or (name if topic is None else topic.topic_id), index))
        self._handover.gives(observed, answer, places)
