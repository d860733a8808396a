"""All checkers behind the one interface that processes call, and the periodic checks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from failover.common_time import AGREE_MS
from failover.routing import partition_for
from failover.simulation.checkers.any_answer import AnyAnswer
from failover.simulation.checkers.client_history import ClientHistoryChecker
from failover.simulation.checkers.evidence import Evidence
from failover.simulation.checkers.ownership.checker import OwnershipChecker
from failover.simulation.checkers.replicated import Replicated
from failover.simulation.checkers.share_state import ShareStateChecker
from failover.simulation.checkers.states import States
from protocol.wire.messages import OffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from kio.static.protocol import Entity

    from failover.simulation.checkers.values import Values
    from failover.simulation.nodes.process import Process
    from failover.simulation.nodes.requests import SentAnswer
    from failover.simulation.world import World

STATES_EVERY_MS = 5_000


class Checkers:
    """Checks the invariants at every step; a checker that finds a breach raises a Violation."""

    def __init__(self, world: World, values: Values) -> None:
        self.client_history = ClientHistoryChecker(world, values)
        self.replicated = Replicated(world, self.client_history)
        self.evidence = Evidence(world, self.replicated)
        self.replicated.upon_leader = self.evidence.is_bound
        self.client_history.committed_epoch = self.replicated.committed_epoch
        self.client_history.deletions = self.replicated.deletions
        self.ownership = OwnershipChecker(world, self.client_history, values)
        self.client_history.modern = self.ownership
        self.states = States(self.replicated, self._topic, self.ownership.owners.gave_up)
        self._world = world
        self._values = values
        self.share_state = ShareStateChecker(world)
        self.any_answer = AnyAnswer(world, values)
        self.any_answer.committed_epoch = self.replicated.committed_epoch
        self.evidence.upon_restore = self.any_answer.restored
        self.sent = self.replicated.sent
        self.turned = self.replicated.turned
        self.dies = self.replicated.note_commits
        self.writes = self.replicated.writes
        world.after(STATES_EVERY_MS, self._check_states)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch hosts while they run, within this context."""
        with self.evidence.watching(), self.replicated.rules.watching():
            yield

    def asked(self, process: Process, message: Entity) -> None:
        """Note that a request reached a node."""
        self.client_history.asked(process, message)
        if isinstance(message, OffsetCommitRequest):
            self._is_ahead(process, message.group_id)
        self.any_answer.asked(message)
        self.share_state.asked(message)
        group_id = getattr(message, "group_id", "")
        if group_id and getattr(message, "member_id", ""):
            self._values.contact(group_id, self._world.now)

    def answered(self, process: Process, answer: SentAnswer) -> None:
        """Check an answer that a node sends."""
        if isinstance(answer.message, OffsetCommitRequest):
            self._is_ahead(process, answer.message.group_id)
        self.client_history.answered(process, answer)
        self.any_answer.answered(process, answer)
        self.share_state.answered(answer)

    def _is_ahead(self, process: Process, group_id: str) -> None:
        """Note a commit with a time that is ahead: it may be, while no majority agrees."""
        host = process.host
        if host is not None:
            ahead_ms = host.wall.at(process.local_now()) - self._world.client_now
            if ahead_ms > AGREE_MS:
                self._values.late.add(group_id)

    def repeated(self, process: Process, answer: SentAnswer) -> None:
        """Check an answer that a node repeats without asking its host."""
        number = partition_for(answer.message.group_id, process.identity.partitions)
        self.evidence.repeated(process, number)
        self.answered(process, answer)

    def forget(self) -> None:
        """Note that all groups have expired: new ones start."""
        self.client_history.forget()
        self.ownership.forget()
        self.any_answer.forget()

    def _topic(self, topic_id: UUID) -> str | None:
        """Return the name of a known topic, unless a topic of that name was ever deleted."""
        name = self.ownership.owners.topic_names.get(topic_id)
        return None if name is None or self._values.was_deleted(name) else name

    def _check_states(self) -> None:
        self.states.check(self.replicated.processes.values())
        self._world.after(STATES_EVERY_MS, self._check_states)
