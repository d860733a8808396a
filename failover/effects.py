"""What a host asks its driver to do; the driver carries it out in the order of the fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.groups.effects import Reply, Request, Task
    from protocol.groups.facts import Fact
    from storage.log import Write
    from storage.messages import Message


@dataclass(frozen=True, slots=True)
class Forward:
    """A change of the catalogue to be carried to ``node_id``, which leads it.

    There it enters by ``Host.receive``, under a ticket of that driver's own; the answer comes back
    here by ``Host.forwarded(request.ticket, response)``: None when the leader was not reached.
    """

    node_id: int
    request: Request


@dataclass(slots=True)
class Effects:
    """One turn's side effects.

    After writing ``writes`` (all of them, in order, synced when ``sync``), the driver calls
    ``Host.persisted(now)`` and drains again: what was waiting for the disk comes out then.
    ``messages`` go to other nodes, by their ids, after the writes are on disk; losses are allowed.
    ``tasks`` name the partition that wants the result, by ``Host.computed``. ``notes`` are
    sentences for the log.
    """

    writes: list[Write] = field(default_factory=list)
    sync: bool = False
    messages: dict[int, list[Message]] = field(default_factory=dict)
    forwards: list[Forward] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    tasks: list[tuple[int, Task]] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

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
