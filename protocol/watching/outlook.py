"""What the watching of groups of every type shares: state, offsets, topics, settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from protocol.watching.committed import CommittedOffsets
from protocol.watching.memory import FIRST_EPOCHS
from protocol.watching.topic_book import TopicBook
from protocol.watching.troubles import Troubles

if TYPE_CHECKING:
    from protocol.groups.context import Context

DEPARTED_MAX: Final = 1_000
"""Groups whose end is remembered until another one has their id."""

SESSION_TIMEOUT_MS: Final = 45_000
"""The default of Kafka's consumers and groups."""


@dataclass(frozen=True, slots=True)
class Departed:
    """A group whose records went at ``time_ms``, in this epoch or generation.

    It becomes one of another type if the records of that are written at once with its tombstones,
    and if it had members: in its records, or only waiting to join. A group of the same type that
    comes later with its id is new: what compaction leaves of it has no such end before it.
    """

    group_type: str
    members: frozenset[str]
    time_ms: int
    epoch: int

    def has(self, member_id: str, time_ms: int) -> bool:
        """Whether a member of the group that begins at this time was one of this group."""
        return self.time_ms == time_ms and member_id in self.members

    def becomes(self, epoch: int, time_ms: int) -> bool:
        """Whether a group that begins at this time, in this epoch, is this one with another type.

        One whose members only wait keeps its epoch; one that was empty ends, and another begins.
        """
        is_kept = epoch == self.epoch and epoch not in FIRST_EPOCHS
        return self.time_ms == time_ms and (bool(self.members) or is_kept)


@dataclass(slots=True, kw_only=True)
class Outlook:
    """``ctx`` has the groups as the core replays them.

    ``session_timeout_ms`` is assumed of members whose records do not have it. ``departed`` are
    groups that have ended or are changing their type, by id. ``is_silent``: nobody reads the facts.
    ``troubles``: what could not be concluded.
    """

    ctx: Context
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    committed: CommittedOffsets = field(default_factory=CommittedOffsets)
    topics: TopicBook = field(default_factory=TopicBook)
    departed: dict[str, Departed] = field(default_factory=dict)
    troubles: Troubles = field(default_factory=Troubles)
    is_silent: bool = False

    def depart(self, group_id: str, departed: Departed) -> None:
        """Note that a group ends or changes its type; the oldest is forgotten if they are many."""
        self.departed.pop(group_id, None)
        self.departed[group_id] = departed
        if len(self.departed) > DEPARTED_MAX:
            del self.departed[next(iter(self.departed))]
