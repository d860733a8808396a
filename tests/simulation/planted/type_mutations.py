"""Planted bugs in share groups, share state and streams groups."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from failover.partitions.replies import Replies
from failover.simulation.patches import Patch
from failover.simulation.settings import GroupMix
from protocol.groups.facts import MemberEventKind
from protocol.groups.modern import leave as modern_leave
from protocol.groups.modern import members as modern_members
from protocol.groups.modern import reconcile
from protocol.groups.modern.hard_state import ModernGroupMember
from protocol.groups.share import heartbeat as share_heartbeat
from protocol.groups.share.group import ShareGroup
from protocol.groups.share_state import shard as share_state_shard
from protocol.groups.share_state import store
from protocol.groups.streams import heartbeat as streams_heartbeat
from protocol.groups.streams.group import StreamsGroup, StreamsGroupMember
from protocol.groups.streams.task_numbers import task_of
from protocol.groups.streams.warming import migrations
from tests.simulation.planted.answer_mutations import answered_unwaited, unwaited
from tests.simulation.planted.group_mutations import epoch_not_persisted
from tests.simulation.planted.mutations import Mutation

# --- share groups


def share_partition_for_nobody() -> list[Patch]:
    original = ShareGroup.assignable
    return [(ShareGroup, "assignable", lambda self, topic: original(self, topic)[:-1])]


def share_assigned_before_initialized() -> list[Patch]:
    return [
        (ShareGroup, "assignable", lambda self, topic: tuple(range(topic.partitions))),
        (ShareGroup, "without_unavailable", lambda self, target, numbers: target),
    ]


def share_not_withdrawn() -> list[Patch]:
    return [(reconcile, "_foreign", lambda partitions, inputs: set())]


def share_epoch_not_persisted() -> list[Patch]:
    return epoch_not_persisted()


def share_epoch_falls() -> list[Patch]:
    return _tells_previous_epoch(share_heartbeat, "_answer")


def _tells_previous_epoch(module: Any, name: str) -> list[Patch]:
    """Let answers without an assignment tell the epoch before the current one."""
    original = getattr(module, name)

    def tell(*given: Any, **with_assignment: bool) -> Any:
        told = original(*given, **with_assignment)
        (member,) = (each for each in given if isinstance(each, ModernGroupMember))
        epoch = member.assignment.previous_epoch
        is_short = not any(with_assignment.values()) and epoch > 0
        return replace(told, member_epoch=epoch) if is_short else told

    return [(module, name, tell)]


def share_heartbeat_unwaited() -> list[Patch]:
    return unwaited(76)


# --- share state


def share_state_forgotten() -> list[Patch]:
    return [(store, "initialize", lambda ctx, share, state_epoch, start_offset, now: None)]


def share_call_unwaited() -> list[Patch]:
    """Let groups ask share coordinators before their own records are committed."""
    original = Replies.hold_calls

    def hold_calls(self: Replies, tasks: Any) -> Any:
        first = len(self.new)
        others = original(self, tasks)
        self.new[first:] = [(call, ()) for call, _ in self.new[first:]]
        return others

    return [(Replies, "hold_calls", hold_calls)]


def share_write_unwaited() -> list[Patch]:
    return _share_state_unwaited(85)


def share_read_unwaited() -> list[Patch]:
    return _share_state_unwaited(84)


def _share_state_unwaited(key: int) -> list[Patch]:
    return [(share_state_shard, "HANDLERS", answered_unwaited(share_state_shard.HANDLERS, key))]


def share_update_lost_in_snapshot() -> list[Patch]:
    original = store._emit

    def emit(ctx: Any, share: Any, state: Any, written: Any, now: int) -> None:
        if state.updates >= ctx.configs.integer(store.UPDATES_PER_SNAPSHOT):
            written = written._replace(start_offset=state.snapshot.start_offset)
        original(ctx, share, state, written, now)

    return [(store, "_emit", emit)]


def share_leader_epoch_not_fenced() -> list[Patch]:
    original = store.write

    def write(ctx: Any, share: Any, written: Any, now: int) -> None:
        original(ctx, share, written._replace(leader_epoch=-1), now)

    return [(store, "write", write)]


def share_state_epoch_not_fenced() -> list[Patch]:
    original = store.write

    def write(ctx: Any, share: Any, written: Any, now: int) -> None:
        original(ctx, share, written._replace(state_epoch=-1), now)

    return [(store, "write", write)]


def share_leader_epoch_not_kept() -> list[Patch]:
    original = store._emit

    def emit(ctx: Any, share: Any, state: Any, written: Any, now: int) -> None:
        kept = state.current().leader_epoch
        original(ctx, share, state, written._replace(leader_epoch=kept), now)

    return [(store, "_emit", emit)]


# --- streams groups


def streams_task_active_twice() -> list[Patch]:
    def is_free(self: StreamsGroup, member: Any) -> Any:
        process, held = member.metadata.process_id, self.process_tasks
        return lambda place: not held.get((process, task_of(place)))

    return [(StreamsGroup, "is_free", is_free)]


def streams_revocation_not_awaited() -> list[Patch]:
    return [(reconcile, "_holds", lambda wish, partitions: False)]


def streams_standby_beside_active() -> list[Patch]:
    def is_free(self: StreamsGroup, member: Any) -> Any:
        holders, member_id = self.holders, member.member_id
        return lambda place: holders.get(place, member_id) == member_id

    return [(StreamsGroup, "is_free", is_free)]


def streams_processes_unknown_to_assignor() -> list[Patch]:
    original = StreamsGroupMember.set_metadata

    def set_metadata(self: StreamsGroupMember, metadata: Any, subscription: Any) -> None:
        original(self, metadata, subscription)
        row: Any = self.row
        self.row = row._replace(process_id=self.member_id)

    return [(StreamsGroupMember, "set_metadata", set_metadata)]


def streams_epoch_not_persisted() -> list[Patch]:
    return epoch_not_persisted()


def streams_epoch_falls() -> list[Patch]:
    return _tells_previous_epoch(streams_heartbeat, "answer")


def streams_heartbeat_unwaited() -> list[Patch]:
    return unwaited(88)


def streams_warmup_never_ends() -> list[Patch]:
    """Let members report in vain that a warm-up task has caught up."""
    return [(migrations._Planner, "_is_caught_up", lambda self, lag: False)]


def streams_standby_beside_what_stays() -> list[Patch]:
    """Give the process that keeps a task for now its standby too."""
    return [(migrations._Planner, "_hold_standbys", lambda self, each, is_borrowed: None)]


def streams_warmup_of_own_task() -> list[Patch]:
    """Let the member warm a task up that runs it, instead of its new owner."""
    original = migrations._Planner._fund

    def fund(self: Any, staged: Any) -> Any:
        return original(self, [each._replace(owner=each.keeper, copy=None) for each in staged])

    return [(migrations._Planner, "_fund", fund)]


def static_streams_member_starts_empty() -> list[Patch]:
    original = modern_members.replace_member

    def replace_member(ctx: Any, runtime: Any, old: Any, member_id: str, now: int) -> None:
        original(ctx, runtime, old, member_id, now)
        member = runtime.group.members[member_id]
        empty = replace(member.assignment, epoch=runtime.group.assignment_epoch, assigned={})
        modern_members.emit_assignment(ctx, runtime.group_id, member_id, empty)

    return [(modern_members, "replace_member", replace_member)]


def static_streams_member_gives_up_when_away() -> list[Patch]:
    original = modern_leave.leave_temporarily

    def leave_temporarily(ctx: Any, runtime: Any, member: ModernGroupMember, now: int) -> None:
        original(ctx, runtime, member, now)
        free = replace(member.assignment, assigned={})
        modern_members.emit_assignment(ctx, runtime.group_id, member.member_id, free)

    return [(modern_leave, "leave_temporarily", leave_temporarily)]


def static_streams_member_removed_when_away() -> list[Patch]:
    def leave_temporarily(ctx: Any, runtime: Any, member: ModernGroupMember, now: int) -> None:
        members = {member.member_id: None}
        modern_leave.remove(ctx, runtime, members, MemberEventKind.LEFT, now)

    return [(modern_leave, "leave_temporarily", leave_temporarily)]


TYPE_MUTATIONS: Mapping[str, Mutation] = {
    function.__name__: Mutation(about, function, seed, groups)
    for groups, rows in (
        (
            GroupMix.SHARE,
            (
                (share_partition_for_nobody, 0, "a partition is assigned to nobody"),
                (share_assigned_before_initialized, 24, "partitions are assigned at once"),
                (share_not_withdrawn, 5, "members keep topics that they gave up"),
                (share_epoch_not_persisted, 0, "a group epoch is in the leader's memory only"),
                (share_epoch_falls, 0, "a member is told the epoch before its own"),
                (share_heartbeat_unwaited, 0, "a heartbeat's answer leaves before the commit"),
                (share_state_forgotten, 0, "share state is said to be there, and is not"),
                (share_call_unwaited, 0, "share state is asked for before the commit"),
                (share_write_unwaited, 0, "a write is acknowledged before the commit"),
                (share_read_unwaited, 3, "a read is answered before the commit"),
                (share_update_lost_in_snapshot, 3, "a snapshot has an older start offset"),
                (share_leader_epoch_not_fenced, 7, "a former leader may write"),
                (share_state_epoch_not_fenced, 27, "an outdated state epoch may write"),
                (share_leader_epoch_not_kept, 5, "a read does not fence former leaders"),
            ),
        ),
        (
            GroupMix.STREAMS,
            (
                (streams_task_active_twice, 0, "a task is given before it is given up"),
                (streams_revocation_not_awaited, 1, "nobody waits for a member to give up"),
                (streams_standby_beside_active, 0, "a process may have a task twice"),
                (streams_processes_unknown_to_assignor, 0, "the assignor knows no processes"),
                (streams_epoch_not_persisted, 0, "a group epoch is in the leader's memory only"),
                (streams_epoch_falls, 0, "a member is told the epoch before its own"),
                (streams_heartbeat_unwaited, 0, "a heartbeat's answer leaves before the commit"),
                (streams_warmup_never_ends, 1, "a task warms up for ever"),
                (streams_standby_beside_what_stays, 0, "a task stays beside its standby"),
                (streams_warmup_of_own_task, 0, "a member warms up what it runs"),
                (static_streams_member_starts_empty, 43, "a static member's tasks are lost"),
                (static_streams_member_gives_up_when_away, 50, "who is away has no tasks"),
                (static_streams_member_removed_when_away, 7, "who is away is no member"),
            ),
        ),
    )
    for function, seed, about in rows
}
