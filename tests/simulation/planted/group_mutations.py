"""Planted bugs in consumer groups, online migration and the way of an assignment."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from failover.simulation.patches import Patch
from failover.simulation.settings import GroupMix
from protocol.groups.consumer.group import ConsumerGroup, ConsumerGroupMember
from protocol.groups.effects import AssignmentComputed
from protocol.groups.group_types import TABLES
from protocol.groups.migration import downgrade as migration_downgrade
from protocol.groups.migration import mixed_join
from protocol.groups.migration import upgrade as migration_upgrade
from protocol.groups.modern import group as modern
from protocol.groups.modern import members as modern_members
from protocol.groups.modern import reconcile, target
from protocol.groups.modern import steps as modern_steps
from protocol.groups.modern.hard_state import NO_ASSIGNMENT
from protocol.groups.modern.runtime import ModernGroupRuntime
from protocol.groups.modern.target_feed import TargetFeed
from protocol.groups.offsets import commit as offsets
from protocol.records import ConsumerGroupTargetAssignmentMemberKey, MemberMetadata, Record
from protocol.wire.errors import ErrorCode, KafkaError
from tests.simulation.planted.mutations import Mutation


def target_slice_applied_early() -> list[Patch]:
    original = target._emit_metadata

    def emit_metadata(ctx: Any, group: Any, epoch: int, at_ms: int, arriving_epoch: int) -> None:
        if not arriving_epoch:
            original(ctx, group, epoch, at_ms, 0)

    return [(target, "_emit_metadata", emit_metadata)]


def stale_assignment_applied() -> list[Patch]:
    def computed(ctx: Any, event: AssignmentComputed, now: int) -> None:
        runtime = ctx.modern_runtime.get(event.group_id)
        if runtime is not None and runtime.run is not None:
            event = replace(event, run=runtime.run.number)
        target.computed(ctx, event, now)

    return [(TABLES, "events", {**TABLES.events, AssignmentComputed: computed})]


def unreleased_partition_handed_out() -> list[Patch]:
    original = modern_steps.ReconcileInput

    def wish(**known: Any) -> reconcile.ReconcileInput:
        return original(**{**known, "is_free": lambda _: True})

    return [(modern_steps, "ReconcileInput", wish)]


def revocation_not_awaited() -> list[Patch]:
    return [(reconcile, "_holds", lambda wish, partitions: False)]


def epoch_not_persisted() -> list[Patch]:
    def bump(ctx: Any, runtime: ModernGroupRuntime, cause: Any, now: int) -> None:
        group = runtime.group
        runtime.change = (runtime.change or modern.Change(now, cause)) if group.members else None
        modern._prepare(ctx, runtime)
        group.epoch += 1
        group.metadata_hash = modern.metadata_hash(ctx, runtime)
        runtime.is_stale = runtime.must_bump = False

    return [(modern, "bump", bump)]


def static_successor_loses_its_share() -> list[Patch]:
    original = modern_members.replace_member

    def replace_member(
        ctx: Any, runtime: ModernGroupRuntime, old: Any, member_id: str, now: int
    ) -> None:
        original(ctx, runtime, old, member_id, now)
        key = ConsumerGroupTargetAssignmentMemberKey(runtime.group_id, member_id)
        ctx.emit(Record(key, None))
        modern_members.emit_assignment(ctx, runtime.group_id, member_id, NO_ASSIGNMENT)

    return [(modern_members, "replace_member", replace_member)]


def classic_member_told_by_group_epoch() -> list[Patch]:
    original = mixed_join._stay

    def stay(ctx: Any, runtime: ModernGroupRuntime, member: Any, join: Any) -> None:
        original(ctx, runtime, member, join)
        replies = ctx.result.replies
        told = replace(replies[-1].message, generation_id=runtime.group.epoch)
        replies[-1] = replace(replies[-1], message=told)

    return [(mixed_join, "_stay", stay)]


def upgrade_forgets_who_owns_what() -> list[Patch]:
    def owned(ctx: Any, group: Any, subscriptions: Any) -> dict[str, list[int]]:
        return {member_id: [] for member_id in group.members}

    return [(migration_upgrade, "_owned", owned)]


def answers_repeated_for_ever() -> list[Patch]:
    return [(ModernGroupRuntime, "end_leases", lambda self: None)]


def downgrade_takes_targets_for_owned() -> list[Patch]:
    original = migration_downgrade._member

    def member(ctx: Any, each: Any, protocol: str) -> MemberMetadata:
        group = next(group for group in ctx.groups.values() if each in _members(group))
        goal = dict.fromkeys(target.of_member(ctx, group, each), 0)
        assignment = replace(each.assignment, assigned=goal, revoking={})
        wrong = ConsumerGroupMember(each.member_id, each.metadata, each.subscription, assignment)
        return original(ctx, wrong, protocol)

    return [(migration_downgrade, "_member", member)]


def _members(group: Any) -> list[ConsumerGroupMember]:
    return [*group.members.values()] if isinstance(group, ConsumerGroup) else []


def sessions_not_armed_after_election() -> list[Patch]:
    def arm_slice(ctx: Any, runtime: ModernGroupRuntime, now: int) -> int:
        runtime.unarmed.clear()
        return 0

    return [(modern, "arm_slice", arm_slice)]


def workers_told_too_little() -> list[Patch]:
    def member_gone(self: TargetFeed, member_id: str, successor: str | None = None) -> None:
        self.changed.pop(member_id, None)

    return [(TargetFeed, "member_gone", member_gone)]


def zombie_commits() -> list[Patch]:
    original = offsets.check_commit

    def check_commit(ctx: Any, request: Any, now: int) -> Any:
        try:
            return original(ctx, request, now)
        except KafkaError as error:
            if error.code in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
                return None
            raise

    return [(offsets, "check_commit", check_commit)]


GROUP_MUTATIONS: Mapping[str, Mutation] = {
    function.__name__: Mutation(about, function, seed, groups)
    for function, seed, groups, about in (
        (
            target_slice_applied_early,
            0,
            GroupMix.CONSUMER,
            "a part of a target is in force at once",
        ),
        (
            stale_assignment_applied,
            7,
            GroupMix.CONSUMER,
            "a late answer is taken for the next run's",
        ),
        (
            unreleased_partition_handed_out,
            0,
            GroupMix.CONSUMER,
            "others' partitions are given away",
        ),
        (revocation_not_awaited, 1, GroupMix.CONSUMER, "nobody waits for a member to give up"),
        (epoch_not_persisted, 0, GroupMix.CONSUMER, "a group epoch is in the leader's memory only"),
        (static_successor_loses_its_share, 57, GroupMix.CONSUMER, "a static member starts empty"),
        (
            classic_member_told_by_group_epoch,
            7,
            GroupMix.MIXED,
            "a generation is ahead of the target",
        ),
        (upgrade_forgets_who_owns_what, 44, GroupMix.MIXED, "classic members' partitions are free"),
        (answers_repeated_for_ever, 2, GroupMix.CONSUMER, "a new target does not end leases"),
        (
            downgrade_takes_targets_for_owned,
            52,
            GroupMix.MIXED,
            "what classic members have is lost",
        ),
        (sessions_not_armed_after_election, 1, GroupMix.CONSUMER, "a new leader expects nobody"),
        (workers_told_too_little, 1, GroupMix.CONSUMER, "a worker is not told who has gone"),
        (zombie_commits, 7, GroupMix.MIXED, "a member that lost its place may still commit"),
    )
}
