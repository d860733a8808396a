"""Members of a modern group: which may join, and the records written for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from protocol.groups import event_log
from protocol.groups.facts import MemberEventKind
from protocol.groups.group_type import edge_to
from protocol.groups.modern import group as modern
from protocol.groups.modern import target
from protocol.groups.modern.assignment_records import CurrentAssignment
from protocol.groups.modern.hard_state import JOIN_EPOCH, MemberT, ModernGroup
from protocol.groups.modern.reconcile import MemberAssignment, MemberState
from protocol.records import Record
from protocol.wire.errors import ErrorCode, KafkaError

GroupT = TypeVar("GroupT", bound=ModernGroup[Any])

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from protocol.groups.context import Context
    from protocol.groups.modern.hard_state import ModernGroupMember
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.topic_numbers import Partition, TopicNumbers


def find_group(
    ctx: Context, group_class: type[GroupT], group_id: str, *, may_make: bool
) -> GroupT | None:
    """Return the group of a request; None: the caller must create it.

    Raises GROUP_ID_NOT_FOUND for a group of another type, and where none may be created.
    """
    group = ctx.groups.get(group_id)
    if isinstance(group, group_class):
        return group
    noun = f"{group_class.type_name} group"
    if group is not None:
        raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} is not a {noun}.")
    if not may_make:
        raise KafkaError(ErrorCode.group_id_not_found, f"{noun.capitalize()} {group_id} not found.")
    return None


def check_room(ctx: Context, group: ModernGroup[Any]) -> None:
    """Refuse a member if the group already has the maximum for its type."""
    most = ctx.configs.integer(group.kind.configs.max_size)
    if len(group.members) >= most:
        raise KafkaError(
            ErrorCode.group_max_size_reached,
            f"The {group.type_name} group has reached its maximum capacity of {most} members.",
        )


def holding(
    ctx: Context, group: ModernGroup[MemberT], member_id: str, instance_id: str, now: int
) -> MemberT:
    """Return the member that holds an instance id; fence any other member id."""
    holder = group.static_member(instance_id)
    if holder is None:
        raise KafkaError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        runtime = ctx.modern_runtime.get(group.group_id)
        if runtime is not None:
            zombie = event_log.fenced(group.group_id, member_id, instance_id, now)
            runtime.event_log.note_fenced(ctx, zombie)
        raise KafkaError(
            ErrorCode.fenced_instance_id,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {holder.member_id}.",
        )
    return holder


def unreleased(holder: ModernGroupMember, instance_id: str, member_id: str) -> KafkaError:
    """Return the error for a member that joins with the instance id of a member that is there."""
    return KafkaError(
        ErrorCode.unreleased_instance_id,
        f"Static member {member_id} with instance id {instance_id} cannot join the group because"
        f" the instance id is owned by {holder.member_id} member.",
    )


def check_epoch(
    group_class: type[ModernGroup[Any]],
    known: MemberAssignment,
    received: int,
    owned: Callable[[], Set[Partition] | None],
) -> None:
    """Accept the current epoch, and the previous one if the answer may have been lost.

    ``owned`` returns what the member says that it owns; None: it does not say all that is needed.
    """
    if received == known.epoch:
        return
    if received < known.epoch and received == known.previous_epoch:
        has = owned()
        if has is not None and has <= known.assigned.keys():
            return
    size = "greater" if received > known.epoch else "smaller"
    raise KafkaError(
        ErrorCode.fenced_member_epoch,
        f"The {group_class.type_name} group member has a {size} member epoch ({received}) than the"
        f" one known by the group coordinator ({known.epoch}). The member must abandon all its"
        " partitions and rejoin.",
    )


def convert_group(
    ctx: Context,
    group_class: type[ModernGroup[Any]],
    group_id: str,
    plan: ModernGroup[Any] | None,
    now: int,
) -> None:
    """Make the group of another type one of this type, as ``plan`` says; None: a new group."""
    edge = edge_to(ctx, ctx.groups[group_id], group_class.type_name)
    assert edge is not None
    assert edge.convert is not None
    edge.convert(ctx, group_id, plan, now)


def take_place(
    ctx: Context, group_id: str, old: ModernGroupMember, member_id: str, now: int
) -> None:
    """Give a static member's place to its successor."""
    runtime = modern.find(ctx, group_id, now)
    assert runtime is not None
    replace_member(ctx, runtime, old, member_id, now)


def replace_member(
    ctx: Context, runtime: ModernGroupRuntime, old: ModernGroupMember, member_id: str, now: int
) -> None:
    """Give a static member's metadata, target and partitions to its successor.

    Nothing else in the group changes: that is the purpose of static membership (KIP-345).
    """
    target.write_all(ctx, runtime, now)
    group, old_id = runtime.group, old.member_id
    metadata, cached_target = old.metadata, group.targets.get(old_id)
    assignment = MemberAssignment(
        JOIN_EPOCH, JOIN_EPOCH, MemberState.STABLE, dict.fromkeys(old.assignment.assigned, 0), {}
    )
    if old_id == member_id:
        emit_assignment(ctx, group.group_id, member_id, assignment)
        return
    emit_tombstones(ctx, group, old_id)
    modern.drop_session(ctx, runtime, old_id)
    group_id, codec = group.group_id, group.kind.codec
    ctx.emit(Record(codec.member_key(group_id, member_id), metadata))
    if cached_target is not None:
        ctx.emit(Record(codec.target_key(group_id, member_id), cached_target))
    emit_assignment(ctx, group_id, member_id, assignment)
    runtime.feed.member_gone(old_id, member_id)
    runtime.feed.member_changed(member_id)
    for run in runtime.runs():
        run.replaced(old_id, member_id)
    event = modern.event(ctx, runtime, group.members[member_id], MemberEventKind.REPLACED, now)
    runtime.event_log.note(ctx, replace(event, previous_member_id=old_id, changes_nothing=True))


def emit_assignment(
    ctx: Context, group_id: str, member_id: str, assignment: MemberAssignment
) -> None:
    """Write a member's current assignment."""
    current = CurrentAssignment(
        assignment.epoch,
        assignment.previous_epoch,
        assignment.state,
        assignment.assigned,
        assignment.revoking,
    )
    group = ctx.groups[group_id]
    assert isinstance(group, ModernGroup)
    member = group.members[member_id]
    codec = group.kind.codec
    assigned, units = assignment.assigned, group.unit_numbers(ctx.numbers)
    has, target = assigned.keys(), member.cached_target
    has_target = target is not None and target[1] == has
    if target is not None and has_target:
        member.cached_target = (target[0], has)  # share one object
    known = member.encoded_assignment
    if known is None or known[0] is not assigned:
        if target is not None and has_target and codec.owned_in_target:
            owned = codec.owned_in_target(target[0])
        else:
            owned = codec.write_owned(assigned, units)
        member.encoded_assignment = known = (assigned, owned)
    value = codec.write_current(current, units, known[1])
    ctx.emitted = (value, assignment)
    ctx.emit(Record(codec.current_key(group_id, member_id), value))


def encoded_assignment(
    group: ModernGroup[Any], member: ModernGroupMember, numbers: TopicNumbers
) -> bytes:
    """Return a member's partitions as its record has them, which was usually just written."""
    assigned, known = member.assignment.assigned, member.encoded_assignment
    if known is None or known[0] is not assigned:
        owned = group.kind.codec.write_owned(assigned, group.unit_numbers(numbers))
        member.encoded_assignment = known = (assigned, owned)
    return known[1]


def emit_tombstones(ctx: Context, group: ModernGroup[Any], member_id: str) -> None:
    """Write tombstones for a member's current assignment, target assignment and metadata."""
    codec = group.kind.codec
    for key in (codec.current_key, codec.target_key, codec.member_key):
        ctx.emit(Record(key(group.group_id, member_id), None))
