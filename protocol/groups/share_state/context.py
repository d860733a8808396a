"""The state of one partition of ``__share_group_state`` while it handles one event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.effects import Reply, Result
from protocol.groups.share_state.keys import SharePartition
from protocol.groups.share_state.state import ShareState
from protocol.records import ShareSnapshotKey, ShareUpdateKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from kio.static.protocol import Entity

    from protocol.config import Configs
    from protocol.groups.effects import Ticket
    from protocol.groups.topics import Topics
    from protocol.groups.wall import WallClock
    from protocol.records import Record


class ShareStateContext:
    """``states`` is the share state by group id, topic id and partition: only replays write it."""

    __slots__ = ("configs", "result", "states", "topics", "wall")

    def __init__(self, configs: Configs, topics: Topics, wall: WallClock) -> None:
        self.configs = configs
        self.topics = topics
        self.wall = wall
        self.states: dict[str, dict[tuple[UUID | None, int], ShareState]] = {}
        self.result = Result()

    def replay(self, record: Record) -> None:
        """Apply a record."""
        key = record.key
        assert isinstance(key, ShareSnapshotKey | ShareUpdateKey)
        place = (key.topic_id, key.partition)
        before = self.states.get(key.group_id, {}).get(place) or ShareState()
        if isinstance(key, ShareSnapshotKey):
            state = before.with_snapshot(record.value)  # type: ignore[arg-type]  # of that type
        else:
            state = before.with_update(record.value)  # type: ignore[arg-type]  # of that type
        if state.snapshot is not None or state.update is not None:
            self.states.setdefault(key.group_id, {})[place] = state
            return
        states = self.states.get(key.group_id)
        if states is not None:
            states.pop(place, None)
            if not states:
                del self.states[key.group_id]

    def emit(self, record: Record) -> None:
        """Apply a record and add it to the log."""
        self.replay(record)
        self.result.records.append(record)

    def reply(self, ticket: Ticket, message: Entity, group_id: str) -> None:
        """Answer a ticket once everything emitted so far for the group is committed."""
        self.result.replies.append(Reply(ticket, message, group_id))

    def found(self, share: SharePartition) -> ShareState | None:
        """Return what is known of a partition's share state."""
        return self.states.get(share.group_id, {}).get((share.topic_id, share.partition))

    def all(self) -> Iterator[SharePartition]:
        """Iterate over all partitions with share state."""
        for group_id, states in self.states.items():
            for topic_id, partition in states:
                yield SharePartition(group_id, topic_id, partition)
