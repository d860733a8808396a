"""Check that a group's downgrade to classic records the partitions of all its members.

A later upgrade finds in that record the partitions that no other member may have. All records of a
downgrade are in one batch: the members' assignments are removed, the generation is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from failover.simulation.checkers.modern_states import reconciles
from failover.simulation.event_log import Violation
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT
from protocol.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    GroupMetadataKey,
    GroupMetadataValue,
)
from protocol.wire.embedded import decode_assignment

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from protocol.records import Record

Name: TypeAlias = "Callable[[UUID], str | None]"
"""Returns a topic's name; None if unknown, or if the name may now mean another topic."""

GaveUp: TypeAlias = "Callable[[str, str, int, int], set[tuple[str, int]]]"
"""Returns what a member of a group gave up between two times."""


class Downgrades:
    """Follows the records of one batch, each before it is replayed.

    It is no loss when a member gave up a partition since the previous batch and lost it in the
    downgrade: of the two records that say so, only the last is in the log.
    """

    def __init__(self, name: Name, gave_up: GaveUp) -> None:
        self._name = name
        self._gave_up = gave_up
        self._since, self._until = 0, 0
        self._had: dict[tuple[str, str], set[tuple[str, int]]] = {}

    def begin(self, since: int, until: int) -> None:
        """Begin a batch: when the previous one was written, and when this one was."""
        self._since, self._until = since, until
        self._had.clear()

    def check(self, context: Any, record: Record) -> None:
        """Note a record; check that a generation contains what its members have had."""
        key = record.key
        if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            if record.value is None:
                self._had[key.group_id, key.member_id] = self._has(context, key)
            else:
                self._had.pop((key.group_id, key.member_id), None)
        elif isinstance(key, GroupMetadataKey) and isinstance(record.value, GroupMetadataValue):
            self._is_kept(key.group, record.value)

    def _has(
        self, context: Any, key: ConsumerGroupCurrentMemberAssignmentKey
    ) -> set[tuple[str, int]]:
        """Return what a member has and what it still has to give up."""
        group = context.groups.get(key.group_id)
        member = group.members.get(key.member_id) if reconciles(group) else None
        if member is None:
            return set()
        uuids, assignment = context.numbers.uuids, member.assignment
        partitions = (*assignment.assigned, *assignment.revoking)
        named = ((self._name(uuids[at >> TOPIC_SHIFT]), at & INDEX_MASK) for at in partitions)
        return {(name, index) for name, index in named if name is not None}

    def _is_kept(self, group_id: str, value: GroupMetadataValue) -> None:
        for member in value.members:
            had = self._had.get((group_id, member.member_id), set())
            lost = had.difference(decode_assignment(member.assignment) or ())
            if lost:
                lost -= self._gave_up(group_id, member.member_id, self._since, self._until)
            if lost:
                raise Violation(
                    f"{member.member_id} has {sorted(lost)}, of which the record of the classic"
                    " group that its group becomes knows nothing",
                    group_id,
                )
