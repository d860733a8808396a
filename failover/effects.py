"""What a host asks its driver to do; the driver carries it out in the order of the fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kio.static.protocol import Entity
    from protocol.groups.effects import Client, Reply, Ticket
    from protocol.groups.facts import Fact
    from storage.log import Write


@dataclass(frozen=True, slots=True)
class Published:
    """Committed catalogue records for every other node, in log order without gaps.

    ``offset`` is the catalogue offset of the first record. A receiver hands the pair to
    ``Host.apply_catalog``.
    """

    offset: int
    records: Sequence[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A change of the catalogue to be carried to ``node_id``, which leads it.

    There it enters by ``Host.receive`` as a request of API ``api_key`` in its newest shape, under a
    ticket of that driver's own; the answer comes back here by ``Host.forwarded(ticket, response)``,
    or None when the leader could not be reached.
    """

    ticket: Ticket
    node_id: int
    api_key: int
    client: Client
    message: Entity


@dataclass(slots=True)
class Effects:
    """One turn's side effects.

    After writing ``writes`` (all of them, in order, synced when ``sync``), the driver calls
    ``Host.persisted(now)`` and drains again: what was waiting for the disk comes out then.
    ``notes`` are sentences for the log.
    """

    writes: list[Write] = field(default_factory=list)
    sync: bool = False
    published: list[Published] = field(default_factory=list)
    forwards: list[Forward] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(
            self.writes
            or self.published
            or self.forwards
            or self.replies
            or self.facts
            or self.notes
        )
