"""The stories of rebalances on one node: its own, and those that other leaders told it.

A leader tells the other nodes with replicas of the group's partition each story once. A node whose
link has come up is told the newest ones again. So a group's stories are on every node that may lead
it next; whatever is lost on the way is only missing in the history (``docs/explain.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgpack

from failover.partition_kinds import GROUPS
from failover.routing import partition_for
from protocol.stories.history import History, StoryEntry
from protocol.stories.json_form import STORY_BYTES_MAX
from protocol.stories.story import GROUP_ID_MAX
from storage.messages import SoftStateTold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from failover.identity import Identity

AGAIN_MAX: Final = 2_000
AGAIN_BYTES_MAX: Final = 2 << 20
"""The newest stories that a node is told again when its link has come up."""

MESSAGE_BYTES: Final = 64 << 10
_FIELDS: Final = (str, int, int, int, int, bytes)


def _unheard(_entry: StoryEntry) -> None:
    """Keep nothing."""


class ToldStories:
    """``upon_news`` is called with each story that is new here, to store it."""

    def __init__(self, identity: Identity, now: int) -> None:
        self.history = History(now)
        self.upon_news: Callable[[StoryEntry], None] = _unheard
        self._identity = identity

    def add(self, entries: Iterable[StoryEntry]) -> Iterator[tuple[int, SoftStateTold]]:
        """Add own stories; return what to tell to which nodes."""
        by_partition: dict[int, list[StoryEntry]] = {}
        for entry in entries:
            if self.history.add(entry):
                self.upon_news(entry)
                by_partition.setdefault(self._partition_of(entry), []).append(entry)
        for number, those in by_partition.items():
            for message in self._messages(number, those):
                for node_id in self._identity.nodes_of(GROUPS.number(number)):
                    if node_id != self._identity.node_id:
                        yield node_id, message

    def restore(self, entries: Iterable[StoryEntry], since_ms: int) -> None:
        """Add what this node stored before it restarted; it began to remember at ``since_ms``."""
        self.history.since_ms = min(self.history.since_ms, since_ms)
        for entry in entries:
            self.history.add(entry)

    def receive(self, message: SoftStateTold) -> None:
        """Take what another node tells; ignore what is no story."""
        for entry in _unpacked(message.data):
            if self.history.add(entry):
                self.upon_news(entry)

    def tell_again(self, node_id: int) -> Iterator[SoftStateTold]:
        """Return the newest stories of the partitions that both nodes hold."""
        size, by_partition = 0, dict[int, list[StoryEntry]]()
        for entry in reversed(self.history.newest(AGAIN_MAX)):
            number = self._partition_of(entry)
            size += entry.size
            if size > AGAIN_BYTES_MAX:
                break
            if node_id in self._identity.nodes_of(GROUPS.number(number)):
                by_partition.setdefault(number, []).append(entry)
        for number, those in by_partition.items():
            yield from self._messages(number, those)

    def _partition_of(self, entry: StoryEntry) -> int:
        return partition_for(entry.group_id, self._identity.partitions)

    def _messages(self, number: int, entries: Iterable[StoryEntry]) -> Iterator[SoftStateTold]:
        rows: list[StoryEntry] = []
        size = 0
        for entry in entries:
            rows.append(entry)
            size += entry.size
            if size >= MESSAGE_BYTES:
                yield self._message(number, rows)
                rows, size = [], 0
        if rows:
            yield self._message(number, rows)

    def _message(self, number: int, rows: list[StoryEntry]) -> SoftStateTold:
        data = msgpack.packb([tuple(row) for row in rows], use_bin_type=True)
        return SoftStateTold(GROUPS.number(number), 0, self._identity.node_id, data)


def _unpacked(data: bytes) -> Iterator[StoryEntry]:
    try:
        rows = msgpack.unpackb(data, use_list=False, raw=False, strict_map_key=True)
    except (ValueError, msgpack.UnpackException, RecursionError):
        return
    for row in rows if isinstance(rows, tuple) else ():
        if (
            isinstance(row, tuple)
            and tuple(map(type, row)) == _FIELDS
            and len(row[0]) <= GROUP_ID_MAX
            and len(row[-1]) <= STORY_BYTES_MAX
        ):
            yield StoryEntry(*row)
