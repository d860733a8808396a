"""Timers as data: a kind, a group, a member and a deadline. Nothing here runs or sleeps.

Moving a deadline later costs one attribute write: the heap keeps its old, earlier entry, and when
that reaches the top it is pushed again with the true deadline. Moving it earlier adds an entry; the
stale one is dropped when it reaches the top.
"""

from __future__ import annotations

from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple


class TimerKind(StrEnum):
    """The purpose of a timer; the tables of the shard's parts map each kind to its function.

    A group type may define its own kinds: any string that no other part claims.
    """

    SESSION = "session"
    """A member, joined or pending, was not heard from within its session timeout."""

    JOIN = "join"
    """The join phase of a group's rebalance, or its initial delay, has ended."""

    SYNC = "sync"
    """Members did not all send SyncGroup within the rebalance timeout after JoinGroup."""

    OFFSET_EXPIRY = "offset-expiry"
    """Check committed offsets for expiry (KIP-211); one timer for the whole shard."""

    DELETED_TOPICS = "deleted-topics"
    """After an election, remove offsets of deleted topics; one timer for the whole shard."""

    REBUILD = "rebuild"
    """After an election, build the next groups' soft state; one timer for the whole shard."""

    MEMBER_SESSION = "member-session"
    """A consumer group's member was not heard from within the session timeout."""

    REVOCATION = "revocation"
    """A consumer group's member did not revoke partitions within its rebalance timeout."""

    MEMBER_JOIN = "member-join"
    """A classic member of a consumer group was told to rejoin and has not."""

    MEMBER_SYNC = "member-sync"
    """A classic member of a consumer group has joined, but not fetched its assignment."""

    ASSIGNMENT = "assignment"
    """The assignment interval has passed, or an assignor run has taken too long (KIP-1263)."""

    TARGET = "target"
    """Write the next slice of a large target assignment."""

    TASK_INDEX = "task-index"
    """Look at the tasks of the next members of a large streams group: its plan is due."""

    SHARE_STATE = "share-state"
    """A share group's partitions lack share state, or a topic that has some was deleted."""

    SHARE_STATE_TOPICS = "share-state-topics"
    """Remove share state of deleted topics; one timer for the whole shard."""

    SHADOWED = "shadowed"
    """After an election, remove groups whose id another group has; one timer for the shard."""

    REFRESH = "refresh"
    """A consumer group's subscribed topics have changed, or its regex matches are old."""


class TimerKey(NamedTuple):
    """Identifies one timer; ids that a kind does not need are empty."""

    kind: str
    group_id: str
    member_id: str


class _Timer:
    """``deadline_ms`` is the true deadline; ``armed_ms`` is that of the live heap entry."""

    __slots__ = ("armed_ms", "deadline_ms")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.armed_ms = deadline_ms


_SLACK: Final = 64
"""Stale heap entries tolerated beyond one per live timer before the heap is rebuilt."""


class Timers:
    """All timers of a shard, earliest first; equal deadlines in the order they were set."""

    __slots__ = ("_heap", "_sequence", "_timers")

    def __init__(self) -> None:
        self._timers: dict[TimerKey, _Timer] = {}
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, kind: str, group_id: str, member_id: str, deadline_ms: int) -> None:
        """Start or move a timer."""
        key = TimerKey(kind, group_id, member_id)
        timer = self._timers.get(key)
        if timer is None:
            self._timers[key] = timer = _Timer(deadline_ms)
            self._push(deadline_ms, key)
            return
        timer.deadline_ms = deadline_ms
        if deadline_ms < timer.armed_ms:
            timer.armed_ms = deadline_ms
            self._push(deadline_ms, key)

    def cancel(self, kind: str, group_id: str, member_id: str) -> None:
        """Stop a timer, if it runs."""
        self._timers.pop(TimerKey(kind, group_id, member_id), None)

    def deadline(self, kind: str, group_id: str, member_id: str) -> int | None:
        """When a timer is due; None if it does not run."""
        timer = self._timers.get(TimerKey(kind, group_id, member_id))
        return None if timer is None else timer.deadline_ms

    def next_deadline(self) -> int | None:
        """When to check again: the earliest heap entry, never later than the earliest deadline."""
        heap, timers = self._heap, self._timers
        while heap:
            armed_ms, _, key = heap[0]
            timer = timers.get(key)
            if timer is not None and timer.armed_ms == armed_ms:
                return armed_ms
            heappop(heap)
        return None

    def mark(self) -> int:
        """Mark this moment: timers set from now on are newer."""
        return self._sequence

    def pop_due(self, now: int, mark: int) -> TimerKey | None:
        """Take out the earliest timer whose deadline has passed; None when none is left.

        A timer that was set after ``mark`` ends the round: timers that set others for this very
        moment must not starve all other work.
        """
        heap, timers = self._heap, self._timers
        while heap and heap[0][0] <= now and heap[0][1] <= mark:
            armed_ms, _, key = heappop(heap)
            timer = timers.get(key)
            if timer is None or timer.armed_ms != armed_ms:
                continue
            if timer.deadline_ms <= now:
                del timers[key]
                return key
            timer.armed_ms = timer.deadline_ms
            self._push(timer.deadline_ms, key)
        return None

    def shift_deadlines(self, stall_ms: int) -> None:
        """Move every deadline later by the time that the process was stalled."""
        for timer in self._timers.values():
            timer.deadline_ms += stall_ms
            timer.armed_ms += stall_ms
        self._heap = [(armed_ms + stall_ms, n, key) for armed_ms, n, key in self._heap]

    def clear(self) -> None:
        """Stop every timer."""
        self._timers.clear()
        self._heap.clear()

    def _push(self, deadline_ms: int, key: TimerKey) -> None:
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, key))
        if len(self._heap) > 2 * len(self._timers) + _SLACK:
            self._rebuild()

    def _rebuild(self) -> None:
        runtime = {}
        for armed_ms, sequence, key in self._heap:
            timer = self._timers.get(key)
            if timer is not None and timer.armed_ms == armed_ms:
                runtime[key] = (armed_ms, sequence, key)
        self._heap = list(runtime.values())
        heapify(self._heap)
