"""Members of streams groups, as callers play them: they join, own tasks, revoke, leave."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from protocol.wire import streams_messages as m
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from kio.static.protocol import Entity

STREAMS_GROUPS: Final = ("streams-0", "streams-1")
MEMBERS: Final = ("a", "b", "c")
REBALANCE_TIMEOUT: Final = timedelta(seconds=20)
CHANGELOG_END: Final = 1_000_000

Tasks = tuple[m.OwnedTaskIds, ...]


@dataclass(slots=True)
class _Played:
    """A member as its client knows it: its epoch, and the tasks that it was given."""

    epoch: int = 0
    active: Tasks = ()
    standby: Tasks = ()
    warmup: Tasks = ()


@dataclass(slots=True)
class StreamsCalls:
    """Draws heartbeats of streams members, and follows what they are told.

    ``sources`` are topics that may be deleted and created again; each group reads one, and has a
    changelog that the coordinator creates.
    """

    rng: random.Random
    sources: Sequence[str]
    _played: dict[tuple[str, str], _Played] = field(default_factory=dict)

    def heartbeat(self) -> Entity:
        """Return a random member's next heartbeat."""
        group_id, name = self.rng.choice(STREAMS_GROUPS), self.rng.choice(MEMBERS)
        member = self._played.setdefault((group_id, name), _Played())
        fields: dict[str, Any] = {"group_id": group_id, "member_id": name}
        if member.epoch == 0:
            fields |= {
                "member_epoch": 0,
                "topology": self._topology(group_id),
                "rebalance_timeout": REBALANCE_TIMEOUT,
                "active_tasks": (),
                "standby_tasks": (),
                "warmup_tasks": (),
                "process_id": self.rng.choice(MEMBERS[:2]),
            }
        elif self.rng.random() < 0.1:
            fields |= {"member_epoch": -1}
        else:
            fields |= {"member_epoch": member.epoch}
            if self.rng.random() < 0.7:
                fields |= {
                    "active_tasks": member.active,
                    "standby_tasks": member.standby,
                    "warmup_tasks": member.warmup,
                }
            if self.rng.random() < 0.5:
                fields |= self._offsets(member)
        return blank(m.StreamsGroupHeartbeatRequest, **fields)

    def answered(self, message: Any, response: Any) -> None:
        """Follow an answer; None: none came."""
        if response is None:
            return
        member = self._played[message.group_id, message.member_id]
        code = response.error_code
        if code is not ErrorCode.none:
            if code in {ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch}:
                self._played[message.group_id, message.member_id] = _Played()
            return
        member.epoch = max(response.member_epoch, 0)
        if message.member_epoch < 0 or response.active_tasks is not None:
            member.active = _owned(response.active_tasks)
            member.standby = _owned(response.standby_tasks)
            member.warmup = _owned(response.warmup_tasks)

    def _offsets(self, member: _Played) -> dict[str, Any]:
        """Report the copies that a member has: behind, or caught up in the meantime."""
        offset = self.rng.choice((0, CHANGELOG_END))
        copies = [
            (each.subtopology_id, index)
            for each in (*member.standby, *member.warmup)
            for index in each.partitions
        ]
        return {
            name: tuple(
                m.OwnedTaskOffset(subtopology_id=task, partition=index, offset=value)
                for task, index in copies
            )
            for name, value in (("task_offsets", offset), ("task_end_offsets", CHANGELOG_END))
        }

    def _topology(self, group_id: str) -> m.StreamsTopology:
        changelog = m.StreamsTopicInfo(
            name=f"{group_id}-changelog", partitions=0, replication_factor=0, topic_configs=()
        )
        return m.StreamsTopology(
            epoch=1,
            subtopologies=(
                m.StreamsSubtopology(
                    subtopology_id="0",
                    source_topics=(self.sources[STREAMS_GROUPS.index(group_id)],),
                    state_changelog_topics=(changelog,),
                    repartition_source_topics=(),
                    copartition_groups=(),
                ),
            ),
        )


def _owned(tasks: Sequence[m.AssignedTaskIds] | None) -> Tasks:
    return tuple(
        m.OwnedTaskIds(subtopology_id=each.subtopology_id, partitions=each.partitions)
        for each in tasks or ()
    )
