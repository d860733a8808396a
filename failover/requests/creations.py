"""Topics that groups led here need: requests to the catalogue, whose answers go to the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.groups.effects import TopicsCreated
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from protocol.groups.effects import CreateTopics, Reply, Ticket


class Creations:
    """The groups that wait for topics, by the ticket of the CreateTopics request."""

    def __init__(self) -> None:
        self._waiting: dict[Ticket, tuple[int, CreateTopics]] = {}
        self._answered: list[tuple[int, TopicsCreated]] = []

    def begin(self, ticket: Ticket, partition: int, task: CreateTopics) -> None:
        """Remember who asked."""
        self._waiting[ticket] = (partition, task)

    @property
    def has_news(self) -> bool:
        """Whether an answer waits for :meth:`take_answered`."""
        return bool(self._answered)

    def take(self, reply: Reply) -> bool:
        """Take the answer to such a request; return whether it was one."""
        waiting = self._waiting.pop(reply.ticket, None)
        if waiting is None:
            return False
        partition, task = waiting
        answer: Any = reply.message
        errors = {
            each.name: None
            if each.error_code is ErrorCode.none
            else each.error_message or each.error_code.name.upper()
            for each in answer.topics
        }
        self._answered.append((partition, TopicsCreated(group_id=task.group_id, errors=errors)))
        return True

    def take_answered(self) -> list[tuple[int, TopicsCreated]]:
        """Remove and return the events for the groups, each with its partition."""
        answered, self._answered = self._answered, []
        return answered
