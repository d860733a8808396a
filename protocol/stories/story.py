"""The story of one rebalance, as a value: what caused it, who was waited for, what it changed.

Every text and every tuple is bounded (``TEXT_MAX`` and the others below), and what is left out is
counted. All times are Unix milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from protocol.stories.causes import Cause

SHARE: Final = "share"
TEXT_MAX: Final = 255
"""Characters of a text from a client or an assignor that a story keeps."""

GROUP_ID_MAX: Final = 1_000
"""Characters of a group's id; groups with longer ones have no stories."""

NAMED_MAX: Final = 5
"""Members that a story names in each of its lists."""

MOVES_MAX: Final = 20
"""Partitions that a story names, with their owners before and after."""

EVENTS_MAX: Final = 16
"""Events of members that a story keeps."""


class StoryOutcome(StrEnum):
    """How a rebalance ended."""

    STABLE = "stable"
    EMPTY = "empty"  # no member is left
    RESTARTED = "restarted"  # another rebalance began before every member had its share
    UNDER_WAY = "under-way"  # members are still taking over their shares, or nobody saw the end
    CONVERTED = "converted"  # the group has another type now
    UNCHANGED = "unchanged"  # no rebalance: a static member came back under a new member id


class Wait(StrEnum):
    """What a group waited for."""

    JOIN = "join"  # members were to join again
    INITIAL = "initial"  # group.initial.rebalance.delay.ms, for more members
    EXPECTED = "expected"  # group.expected.instance.ids, which were to join
    ASSIGNMENT = "assignment"  # the leader of a classic group was to send the assignment
    INTERVAL = "interval"  # the assignment interval, or an initial delay
    TARGET = "target"  # the new target was to be written: no record says what it waited for
    RECONCILE = "reconcile"  # members were to give up and take over partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A member as people know it; ``name`` is unique in its story. Unknown parts are ""."""

    name: str = ""
    member_id: str = ""
    instance_id: str = ""
    client_id: str = ""
    host: str = ""
    software: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """A wait of ``wait_ms`` for some members, the slowest; ``more`` are not named.

    ``ended`` says how the wait ended for them, if they did not do what was awaited.
    """

    what: Wait
    wait_ms: int
    who: tuple[Who, ...] = ()
    more: int = 0
    ended: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition, or a task, and the names of its owners; "" is nobody."""

    unit: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """Partitions of a member that is gone: nobody served them for ``unserved_ms`` at most."""

    who: Who
    count: int
    units: tuple[str, ...] = ()
    unserved_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Something that happened to a member during the rebalance."""

    time_ms: int
    what: str
    who: Who
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStory:
    """One rebalance of a group.

    ``node_id`` and ``number`` identify the story; a later ``revision`` replaces an earlier one.
    ``before`` and ``after`` are generations or assignment epochs, -1 where there was no rebalance.
    ``who`` caused it, if a member did. Of the ``total`` assigned ``units``, ``moved`` have another
    owner, ``added`` had none and ``dropped`` have none now; ``revoked`` is how many of them members
    that are still there had to give up; None: not known. ``members_changed`` have another share
    than before (-1: not known). ``fix_ups`` counts members that left or were replaced while the
    assignor ran; None, as are ``queue_ms`` and ``assignor_ms``: not known, only the records of
    another cluster are. ``failover_ms``: how long before the begin its coordinator had
    taken over; None: long ago, or not known. ``inferred``: from what the cause was concluded, if
    only the records of another cluster are known; "" where it was seen.
    """

    group_id: str
    node_id: int
    number: int
    cause: Cause
    outcome: StoryOutcome
    started_ms: int
    ended_ms: int
    group_type: str = ""
    revision: int = 0
    before: int = -1
    after: int = -1
    who: Who | None = None
    reason: str = ""
    assignor: str = ""
    leader: str = ""
    members: int = 0
    members_changed: int = -1
    waits: tuple[Waited, ...] = ()
    queue_ms: float | None = 0.0
    assignor_ms: float | None = 0.0
    fix_ups: int | None = 0
    units: str = "partitions"
    total: int | None = None
    moved: int | None = None
    added: int | None = None
    dropped: int | None = None
    revoked: int | None = None
    moves: tuple[Move, ...] = ()
    more_moves: int = 0
    unserved: tuple[Unserved, ...] = ()
    more_unserved: int = 0
    events: tuple[Happened, ...] = ()
    more_events: int = 0
    failover_ms: int | None = None
    inferred: str = ""

    @property
    def kept(self) -> int | None:
        """How many partitions stayed with their owners; None: not known."""
        if self.total is None or self.moved is None or self.added is None:
            return None
        if self.group_type == SHARE and self.members_changed != self.members:
            return None  # some of the others' partitions may have no owner yet
        return max(self.total - self.moved - self.added, 0)

    @property
    def key(self) -> tuple[int, int]:
        """What identifies the story among those of its group."""
        return self.node_id, self.number

    @property
    def took_ms(self) -> int:
        """How long the rebalance took."""
        return self.ended_ms - self.started_ms


def cut(text: str | None) -> str:
    """Shorten a text to what a story keeps; None becomes ""."""
    if not text:
        return ""
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
