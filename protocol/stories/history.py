"""The stories that a node remembers: a bounded ring for each group, as bytes of JSON.

What is kept of all groups together is bounded in bytes. Beyond it the group with the most stories
loses its oldest one; so a group that rebalances all the time does not push out the others.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STORIES_PER_GROUP: Final = 50
BYTES_MAX: Final = 16 << 20
ENTRY_BYTES: Final = 400
"""What a story costs beside its JSON."""


class StoryEntry(NamedTuple):
    """A story's group, what identifies it there, when it ended (Unix ms), and its JSON.

    Entries are ordered by their numbers: clocks of nodes may differ, and step back.
    """

    group_id: str
    node_id: int
    number: int
    revision: int
    ended_ms: int
    data: bytes

    @property
    def key(self) -> tuple[int, int]:
        """What identifies the story in its group."""
        return self.node_id, self.number

    @property
    def size(self) -> int:
        """The bytes that it counts."""
        return len(self.data) + len(self.group_id) + ENTRY_BYTES


@dataclass(slots=True)
class _Ring:
    """A group's stories; ``order`` has what :func:`_order` says of each, ascending."""

    entries: dict[tuple[int, int], StoryEntry] = field(default_factory=dict)
    order: list[tuple[int, int]] = field(default_factory=list)
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class RememberedStories:
    """What is remembered of a group, the oldest first.

    ``since_ms``: from when on nothing is missing here, as far as this node was told; ``dropped``
    stories of the group made room for later ones.
    """

    entries: Sequence[StoryEntry]
    since_ms: int
    dropped: int


class History:
    """The stories of all groups; ``since_ms`` is when this node began to remember."""

    def __init__(
        self,
        since_ms: int,
        *,
        per_group: int = STORIES_PER_GROUP,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self.since_ms = since_ms
        self.size = 0
        self._per_group = per_group
        self._bytes_max = bytes_max
        self._rings: dict[str, _Ring] = {}
        self._by_count: list[dict[str, None]] = [{} for _ in range(per_group + 2)]
        self._dropped_ms: int | None = None

    def __len__(self) -> int:
        return sum(len(ring.entries) for ring in self._rings.values())

    def add(self, entry: StoryEntry) -> bool:
        """Add a story, or a later revision of one; return whether it is news."""
        ring = self._rings.get(entry.group_id)
        if ring is None:
            ring = self._rings[entry.group_id] = _Ring()
        known = ring.entries.get(entry.key)
        if known is not None:
            if known.revision >= entry.revision:
                return False
            del ring.order[bisect_left(ring.order, _order(known))]
            self.size += entry.size - known.size
        else:
            if ring.dropped and _order(entry) < ring.order[0]:
                return False  # it made room before
            count = len(ring.entries)
            self._by_count[count].pop(entry.group_id, None)
            self._by_count[count + 1][entry.group_id] = None
            self.size += entry.size
        ring.entries[entry.key] = entry
        insort(ring.order, _order(entry))
        if len(ring.entries) > self._per_group:
            self._drop_oldest(entry.group_id)
        while self.size > self._bytes_max and self._rings:
            self._drop_oldest(self._largest())
        return True

    def of_group(self, group_id: str) -> RememberedStories:
        """Return what is remembered of a group."""
        ring = self._rings.get(group_id)
        since_ms = self.since_ms
        if ring is None:
            if self._dropped_ms is not None:
                since_ms = max(since_ms, self._dropped_ms)
            return RememberedStories((), since_ms, 0)
        entries = sorted(ring.entries.values(), key=_order)
        if ring.dropped and entries:
            since_ms = max(since_ms, entries[0].ended_ms)
        return RememberedStories(entries, since_ms, ring.dropped)

    def newest(self, count: int) -> list[StoryEntry]:
        """Return the newest stories of all groups, the oldest of them first."""
        every = sorted(self.entries(), key=_order)
        return every[-count:] if count else []

    def entries(self) -> Iterator[StoryEntry]:
        """Return all stories, group by group."""
        for ring in self._rings.values():
            yield from ring.entries.values()

    def _largest(self) -> str:
        for groups in reversed(self._by_count):
            if groups:
                return next(iter(groups))
        raise AssertionError("there is no group")

    def _drop_oldest(self, group_id: str) -> None:
        ring = self._rings[group_id]
        oldest = _oldest(ring)
        count = len(ring.entries)
        self._by_count[count].pop(group_id, None)
        del ring.entries[oldest.key], ring.order[0]
        self.size -= oldest.size
        ring.dropped += 1
        if ring.entries:
            self._by_count[count - 1][group_id] = None
        else:
            del self._rings[group_id]
            self._dropped_ms = max(self._dropped_ms or 0, oldest.ended_ms)


def _order(entry: StoryEntry) -> tuple[int, int]:
    return entry.number, entry.node_id


def _oldest(ring: _Ring) -> StoryEntry:
    number, node_id = ring.order[0]
    return ring.entries[node_id, number]
