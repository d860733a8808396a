"""What the watching of groups of every type shares: state, offsets, topics, settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from protocol.watching.committed import CommittedOffsets
from protocol.watching.topic_book import TopicBook

if TYPE_CHECKING:
    from protocol.groups.context import Context

DEPARTED_MAX: Final = 1_000
SESSION_TIMEOUT_MS: Final = 45_000
"""The default of Kafka's consumers and groups."""


@dataclass(frozen=True, slots=True)
class Departed:
    """A group whose records went while it had members: it becomes one of another type."""

    group_type: str
    members: frozenset[str]


@dataclass(slots=True, kw_only=True)
class Outlook:
    """``ctx`` has the groups as the core replays them.

    ``session_timeout_ms`` is assumed of members whose records do not have it. ``departed`` are
    groups that are changing their type, by id. ``is_silent``: nobody reads the facts.
    """

    ctx: Context
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    committed: CommittedOffsets = field(default_factory=CommittedOffsets)
    topics: TopicBook = field(default_factory=TopicBook)
    departed: dict[str, Departed] = field(default_factory=dict)
    is_silent: bool = False

    def depart(self, group_id: str, departed: Departed) -> None:
        """Note that a group is changing its type; the oldest one is forgotten if they are many."""
        self.departed[group_id] = departed
        if len(self.departed) > DEPARTED_MAX:
            del self.departed[next(iter(self.departed))]
