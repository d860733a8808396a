"""What a consumer group's members have must be in the record of the classic group that it becomes.

Whoever makes it a consumer group again finds there what nobody else may have. All records of a
downgrade are in one batch: the members' assignments go, the generation comes.
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
"""Names a topic by its id; None when that is not known, or the name may mean another topic now."""

GaveUp: TypeAlias = "Callable[[str, str, int, int], set[tuple[str, int]]]"
"""Names what a member of a group said that it no longer has, between two times."""


class Downgrades:
    """Follows the records of one batch, each before it is replayed.

    What a member gave up since the batch before, and lost in the downgrade, is no loss: of the two
    records that say so only the last is in the log.
    """

    def __init__(self, name: Name, gave_up: GaveUp) -> None:
        self._name = name
        self._gave_up = gave_up
        self._since, self._until = 0, 0
        self._had: dict[tuple[str, str], set[tuple[str, int]]] = {}

    def begin(self, since: int, until: int) -> None:
        """Begin a batch: when the one before it was written, and when it was."""
        self._since, self._until = since, until
        self._had.clear()

    def check(self, context: Any, record: Record) -> None:
        """Note a record; hold that a generation names what its members have had."""
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
        """Name what a member has and what it has yet to give up."""
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
