"""What a host asks its driver to do; the driver carries it out in the order of the fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.groups.effects import Reply
    from protocol.groups.facts import Fact
    from storage.log import Write


@dataclass(slots=True)
class Effects:
    """One turn's side effects.

    After writing ``writes`` (all of them, in order, synced when ``sync``), the driver calls
    ``Host.persisted(now)`` and drains again: what was waiting for the disk comes out then.
    """

    writes: list[Write] = field(default_factory=list)
    sync: bool = False
    replies: list[Reply] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.writes or self.replies or self.facts)
