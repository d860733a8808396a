"""What a host asks its driver to do; the driver carries it out in field order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protocol.groups.effects import CallShareState, CreateTopics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.effects import Reply, Request, Task, WorkerTask
    from protocol.groups.facts import Fact
    from storage.log import Write
    from storage.messages import Message


@dataclass(frozen=True, slots=True)
class Forward:
    """A request to be carried to ``node_id``, which leads the partition that it is about.

    It is a change of the catalogue, or a group's request about its share state.

    It arrives there through ``Host.receive``, under a ticket that the other driver chose. The
    answer returns here through ``Host.forwarded(request.ticket, response)``: None when the leader
    was not reached.
    """

    node_id: int
    request: Request


@dataclass(slots=True)
class Effects:
    """One turn's side effects.

    ``messages`` go to other nodes, by node id, at once: they contain nothing that depends on
    ``writes``. They may be lost. ``writes`` are one unit, with the number ``number``: all of them
    are written, in order, readable at once, and synced soon when ``sync`` is set. The driver calls
    ``Host.persisted`` when the unit is on disk, and drains again: what waited for the unit is
    returned then. ``tasks`` name the partition that receives the result, through ``Host.computed``.
    ``creations`` are tasks for the catalogue and ``calls`` for share coordinators: the host itself
    takes them out again.
    ``notes`` are log messages.
    """

    number: int = 0
    messages: dict[int, list[Message]] = field(default_factory=dict)
    forwards: list[Forward] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    sync: bool = False
    replies: list[Reply] = field(default_factory=list)
    tasks: list[tuple[int, WorkerTask]] = field(default_factory=list)
    creations: list[tuple[int, CreateTopics]] = field(default_factory=list)
    calls: list[tuple[int, CallShareState]] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_tasks(self, partition: int, tasks: Iterable[Task]) -> None:
        """Add the tasks of a partition, for whoever does them."""
        for task in tasks:
            if isinstance(task, CreateTopics):
                self.creations.append((partition, task))
            elif isinstance(task, CallShareState):
                self.calls.append((partition, task))
            else:
                self.tasks.append((partition, task))

    def __bool__(self) -> bool:
        return bool(
            self.writes
            or self.messages
            or self.forwards
            or self.replies
            or self.tasks
            or self.facts
            or self.notes
        )
