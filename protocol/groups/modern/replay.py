"""Replays: how each record of a modern group changes its hard state.

They run on leader and standby alike. A compacted log has the records of one group in any order, so
each must be applicable alone: a member's assignment may be read before its metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from protocol.groups import shadowed
from protocol.groups.modern.hard_state import (
    EMPTY_EPOCH,
    NO_ASSIGNMENT,
    ModernGroup,
    PendingTarget,
    ResolvedRegex,
)
from protocol.groups.modern.reconcile import MemberAssignment, MemberState
from protocol.records import encode_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kio.static.protocol import Entity

    from protocol.groups.context import Context
    from protocol.groups.group_type import Replay

GroupT = TypeVar("GroupT", bound=ModernGroup[Any])


class Replays(Generic[GroupT]):
    """The replays of one group type, whose hard state is of class ``group_class``."""

    def __init__(self, group_class: type[GroupT]) -> None:
        self._class = group_class
        self._codec = group_class.kind.codec

    def table(self) -> Mapping[type, Replay]:
        """Return the replay of each key class that all modern types have."""
        codec = self._codec
        regexes: dict[type, Replay] = {}
        if codec.regex_key is not None:
            regexes[codec.regex_key] = self.regex
        return {
            **regexes,
            codec.epoch_key: self.epoch,
            codec.member_key: self.member,
            codec.target_epoch_key: self.target_epoch,
            codec.target_key: self.target,
            codec.current_key: self.current,
        }

    def find(self, ctx: Context, group_id: str) -> GroupT | None:
        """Return the group with that id; None if there is none, or one of another type."""
        group = ctx.groups.get(group_id)
        if isinstance(group, self._class):
            return group
        hidden: GroupT | None = shadowed.find(ctx, group_id, self._class.type_name)
        return hidden

    def found(self, ctx: Context, group_id: str) -> GroupT:
        """Return the group, created if needed: one of another type with that id is gone already.

        At most there is a simple group that was created for committed offsets, or what a downgrade
        left (``shadowed``).
        """
        group = self.find(ctx, group_id)
        if group is None:
            group = self._class(group_id)
            shadowed.put(ctx, group_id, group)
        return group

    def epoch(self, ctx: Context, key: Any, value: Any) -> None:
        """Apply a group epoch; a tombstone removes the group."""
        if value is not None:
            group = self.found(ctx, key.group_id)
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        else:
            shadowed.drop(ctx, key.group_id, self._class.type_name)

    def member(self, ctx: Context, key: Any, value: Any) -> None:
        """Apply a member's metadata; a tombstone removes the member."""
        if value is not None:
            self.found(ctx, key.group_id).put_member(key.member_id, value)
            return
        group = self.find(ctx, key.group_id)
        if group is not None:
            group.remove_member(key.member_id)

    def target(self, ctx: Context, key: Any, value: Entity | bytes | None) -> None:
        """Apply a member's target assignment.

        A new target is gathered separately until its metadata record puts it in force.
        """
        if value is None:
            group = self.find(ctx, key.group_id)
            if group is not None:
                group.targets.pop(key.member_id, None)
                if group.pending_target is not None:
                    group.pending_target.targets.pop(key.member_id, None)
            return
        group = self.found(ctx, key.group_id)
        targets = group.targets if group.pending_target is None else group.pending_target.targets
        targets[key.member_id] = encoded(key, value)

    def target_epoch(self, ctx: Context, key: Any, value: Any) -> None:
        """Put a target assignment in force, or note that the records of one follow."""
        if value is None:
            group = self.find(ctx, key.group_id)
            if group is not None:
                group.assignment_epoch, group.assignment_timestamp_ms = EMPTY_EPOCH, 0
                group.pending_target = None
            return
        group = self.found(ctx, key.group_id)
        group.assignment_epoch = value.assignment_epoch
        group.assignment_timestamp_ms = value.assignment_timestamp
        pending_target = group.pending_target
        is_followed = pending_target is not None and pending_target.epoch <= value.assignment_epoch
        if pending_target is not None and (is_followed or not value.arriving_epoch):
            # A next target follows: its opening record and this one's closing record were in one
            # batch, and only the last was written. Whole targets may have come in between.
            group.targets.update(pending_target.targets)
        group.pending_target = PendingTarget(value.arriving_epoch) if value.arriving_epoch else None

    def current(self, ctx: Context, key: Any, value: Entity | bytes | None) -> None:
        """Apply a member's current assignment; a tombstone frees all its partitions."""
        group = self.find(ctx, key.group_id)
        if value is None:
            member = None if group is None else group.members.get(key.member_id)
            if group is not None and member is not None:
                group.put_assignment(member, NO_ASSIGNMENT)
            return
        group = self.found(ctx, key.group_id)
        if key.member_id not in group.members:
            group.put_member(key.member_id, self._codec.unknown_member)
        emitted, ctx.emitted = ctx.emitted, None
        if emitted is not None and emitted[0] is value:
            assignment = emitted[1]
        else:
            units = group.unit_numbers(ctx.numbers)
            current = self._codec.read_current(encoded(key, value), units)
            epoch, previous, state, assigned, revoking = current
            assignment = MemberAssignment(epoch, previous, MemberState(state), assigned, revoking)
        group.put_assignment(group.members[key.member_id], assignment)

    def regex(self, ctx: Context, key: Any, value: Any) -> None:
        """Apply the matches of a regular expression."""
        if value is not None:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self.found(ctx, key.group_id).put_regex(key.regular_expression, resolved)
            return
        group = self.find(ctx, key.group_id)
        if group is not None:
            group.put_regex(key.regular_expression, None)


def encoded(key: Entity, value: Entity | bytes) -> bytes:
    """Return the bytes of a value, which may be encoded already."""
    if isinstance(value, bytes):
        return value
    encoded = encode_value(key, value)
    assert encoded is not None
    return encoded
