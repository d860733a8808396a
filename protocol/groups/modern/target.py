"""The target assignment: when and where it is computed, and how the result takes effect.

A group whose epoch is ahead of its assignment epoch gets a new target once the assignment interval
since the last one has passed (KIP-1263); the first one at once. A worker does the run
(``ComputeAssignment``). It is done here if the group is configured so, or no worker is alive;
custom assignors run in workers only. A group has one run at a time. Members may come and go during
the run: its result is adjusted when it arrives.

A large result is written in slices, so that other groups' heartbeats are handled in between. The
metadata record is written first and last; only the last one puts the new target in force.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.assignors.registry import BUILT_IN
from protocol.groups import settings as group_settings
from protocol.groups.effects import AssignmentComputed, AssignmentFailed
from protocol.groups.facts import (
    MemberEvent,
    MemberEventKind,
    TargetAssignmentFailed,
)
from protocol.groups.modern import first_target, spares, target_fact
from protocol.groups.modern import group as modern
from protocol.groups.modern.runtime import AssignorRun, Change, FreedTargets, TargetWrite
from protocol.groups.modern.target_fact import TargetStep
from protocol.groups.timers import TimerKind
from protocol.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from protocol.assignors.executor import Executor
    from protocol.groups.context import Context
    from protocol.groups.effects import ComputeAssignment
    from protocol.groups.modern.hard_state import ModernGroup, ModernGroupMember
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.timers import TimerKey
    from protocol.groups.topic_numbers import Partition


SLICE_MEMBERS: Final = 200
SLICE_BYTES: Final = 128 * 1024
"""Bytes of a target that are written at once: below two milliseconds, log batch included."""

TIME_LIMIT: Final = "group.coordinator.background.timeout.ms"
WAIT_MAX_MS: Final = 60_000
"""How long a run may wait in the queue; after that and its time limit it is given up."""

FAILURES_MAX: Final = 3
"""Consecutive failed runs before the next one is delayed."""

RETRY_MS: Final = 1_000


def preferred_assignor(ctx: Context, group: ModernGroup[Any]) -> str:
    """Return the group's own assignor, the one that most members ask for, or the first one."""
    names = ctx.configs.strings(group.kind.configs.assignors)
    own = group.kind.configs.assignor
    chosen = None if own is None else group_settings.text(ctx, group.group_id, own)
    if chosen in names:
        return chosen
    wanted = [name for name in group.assignors if name in names]
    return max(wanted, key=lambda name: (group.assignors[name], name), default=names[0])


def of_member(ctx: Context, group: ModernGroup[Any], member: ModernGroupMember) -> Set[Partition]:
    """Return a member's target assignment, decoded.

    A new leader may find only half a target: until there is another, members without one keep their
    current partitions.
    """
    target = group.targets.get(member.member_id)
    if target is not None:
        if member.cached_target is None or member.cached_target[0] is not target:
            units = group.unit_numbers(ctx.numbers)
            member.cached_target = (target, group.kind.codec.read_target(target, units))
        return member.cached_target[1]
    return frozenset() if group.pending_target is None else member.assignment.assigned.keys()


def update(ctx: Context, runtime: ModernGroupRuntime, now: int, *, is_due: bool = False) -> None:
    """Compute the target assignment if it is outdated, now or when the interval has passed.

    ``is_due``: the interval has passed already, whatever the clock shows by now.
    """
    group = runtime.group
    if (
        group.assignment_epoch >= group.epoch
        or runtime.run is not None
        or runtime.target_write is not None
    ):
        return
    if not group.members or runtime.failed_epoch >= group.epoch:
        return
    due_ms = now if is_due else max(_due_ms(ctx, group, now), runtime.retry_ms)
    due_ms = first_target.due_ms(ctx, runtime, max(due_ms, runtime.hold_ms))
    if due_ms > now:
        ctx.timers.set(TimerKind.ASSIGNMENT, runtime.group_id, "", due_ms)
    else:
        _start(ctx, runtime, now)


def _due_ms(ctx: Context, group: ModernGroup[Any], now: int) -> int:
    """Return when the next target may be computed; at most one interval from now.

    If the last one seems to come from the future, the interval starts once: not at each call.
    """
    last_ms = ctx.wall.since(group.assignment_timestamp_ms)
    if not last_ms:
        return now
    interval_ms = group_settings.integer(
        ctx, group.group_id, group.kind.configs.assignment_interval
    )
    if last_ms <= now:
        return last_ms + interval_ms
    armed_ms = ctx.timers.deadline(TimerKind.ASSIGNMENT, group.group_id, "")
    return now + interval_ms if armed_ms is None else min(now + interval_ms, armed_ms)


def configs_changed(ctx: Context, runtime: ModernGroupRuntime) -> None:
    """Apply new configs to a delayed target, or to a run that is awaited."""
    if ctx.timers.deadline(TimerKind.ASSIGNMENT, runtime.group_id, "") is None:
        return
    if runtime.run is not None:
        ctx.timers.set(
            TimerKind.ASSIGNMENT, runtime.group_id, "", _run_deadline_ms(ctx, runtime.run)
        )
    else:
        ctx.timers.set(TimerKind.REFRESH, runtime.group_id, "", 0)  # it updates the target


def _run_deadline_ms(ctx: Context, run: AssignorRun) -> int:
    """Return when a run that does not answer is given up."""
    return run.started_ms + WAIT_MAX_MS + ctx.configs.integer(TIME_LIMIT)


def _start(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    group = runtime.group
    modern.bump_if_hash_differs(ctx, runtime, now)  # after this all new topics are in the feed
    assignor = preferred_assignor(ctx, group)
    offloads = group_settings.boolean(ctx, runtime.group_id, group.kind.configs.offload)
    in_place = not offloads and may_run_here(assignor)
    run = _begin_run(ctx, runtime, assignor, now, in_place)
    if in_place:
        _run_here(ctx, runtime, run, now)
        return
    ctx.submit(_task(ctx, runtime, run))
    ctx.timers.set(TimerKind.ASSIGNMENT, runtime.group_id, "", _run_deadline_ms(ctx, run))


def _begin_run(
    ctx: Context, runtime: ModernGroupRuntime, assignor: str, now: int, in_place: bool
) -> AssignorRun:
    ctx.last_run += 1
    change = runtime.change or Change(now, None)
    runtime.run = run = AssignorRun(
        ctx.last_run, runtime.group.epoch, assignor, now, in_place, change
    )
    runtime.change = None
    return run


def _task(ctx: Context, runtime: ModernGroupRuntime, run: AssignorRun) -> ComputeAssignment:
    spares.choose(ctx, runtime)
    return runtime.feed.task(
        runtime.group, ctx.topics, run.number, run.assignor, with_racks=runtime.is_rack_aware
    )


def may_run_here(assignor: str) -> bool:
    """Return whether an assignor may run on the coordinator: a custom one may hang, or worse."""
    return assignor in BUILT_IN


def _run_here(ctx: Context, runtime: ModernGroupRuntime, run: AssignorRun, now: int) -> None:
    """Run the assignor on the coordinator itself."""
    result = _executor(ctx).run(_task(ctx, runtime, run))
    if isinstance(result, AssignmentComputed):
        computed(ctx, result, now)
    elif isinstance(result, AssignmentFailed):
        failed(ctx, result, now)


def _executor(ctx: Context) -> Executor:
    """Return the shard's own executor; the assignors' compiled kernels are loaded only for it."""
    if ctx.executor is None:
        from protocol.assignors.executor import Executor

        ctx.executor = Executor(lambda: 0.0)
    return ctx.executor


def computed(ctx: Context, event: AssignmentComputed, now: int) -> None:
    """Apply the result of a run; ignore one that is no longer awaited."""
    runtime = ctx.modern_runtime.get(event.group_id)
    run = None if runtime is None else runtime.run
    if runtime is None or run is None or run.number != event.run:
        return
    runtime.run = None
    runtime.failures = 0
    ctx.timers.cancel(TimerKind.ASSIGNMENT, runtime.group_id, "")
    runtime.feed.computed(run.number)
    withdrawn = spares.withdrawn(runtime, run)
    runtime.target_write = TargetWrite(run, event, now, withdrawn=withdrawn)
    group = runtime.group
    fits = runtime.target_write.size <= SLICE_MEMBERS and _is_small(event.members)
    if group.pending_target is not None or not fits:
        _emit_metadata(ctx, group, group.assignment_epoch, group.assignment_timestamp_ms, run.epoch)
        ctx.timers.set(TimerKind.TARGET, runtime.group_id, "", now)
    else:
        write_all(ctx, runtime, now)


def _is_small(members: Sequence[tuple[str, bytes]]) -> bool:
    return sum(len(value) for _, value in members) <= SLICE_BYTES


def failed(ctx: Context, event: AssignmentFailed, now: int) -> None:
    """Handle a failed run: retry, run it here, or give up until the group changes."""
    runtime = ctx.modern_runtime.get(event.group_id)
    run = None if runtime is None else runtime.run
    if runtime is None or run is None or run.number != event.run:
        return
    runtime.run = None
    runtime.change = run.change
    runtime.feed.start_over()
    if event.needs_whole:
        _start(ctx, runtime, now)
        return
    runtime.failures += 1
    if _report_failure(ctx, runtime, run, event, now):
        runtime.failures = 0
        runtime.failed_epoch = run.epoch
        update(ctx, runtime, now)
    elif event.no_worker and may_run_here(run.assignor):
        again = _begin_run(ctx, runtime, run.assignor, now, in_place=True)
        _run_here(ctx, runtime, again, now)
    elif event.retriable and runtime.failures < FAILURES_MAX:
        _start(ctx, runtime, now)
    else:
        runtime.retry_ms = now + RETRY_MS
        ctx.timers.set(TimerKind.ASSIGNMENT, runtime.group_id, "", runtime.retry_ms)


def _report_failure(
    ctx: Context, runtime: ModernGroupRuntime, run: AssignorRun, event: AssignmentFailed, now: int
) -> bool:
    """Report a failed run; if it is final, add it to the event log and return True."""
    kills_workers = runtime.failures >= FAILURES_MAX and not may_run_here(run.assignor)
    is_final = not event.no_worker and (not event.retriable or kills_workers)
    ctx.fact(
        TargetAssignmentFailed(
            group_id=runtime.group_id,
            group_type=runtime.group.type_name,
            epoch=run.epoch,
            time_ms=now,
            reason=event.reason,
            is_final=is_final,
        )
    )
    if is_final:
        runtime.event_log.remember(
            MemberEvent(
                group_id=runtime.group_id,
                time_ms=now,
                kind=MemberEventKind.NOT_ASSIGNED,
                member_id="",
                reason=event.reason,
            )
        )
    return is_final


def assignment_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Compute the target if the interval has passed; otherwise give up a run without an answer."""
    runtime = ctx.modern_runtime.get(key.group_id)
    if runtime is None:
        return
    if runtime.run is None:
        update(ctx, runtime, now, is_due=True)
        return
    run = runtime.run.number
    failed(
        ctx,
        AssignmentFailed(
            group_id=runtime.group_id, run=run, reason="no answer in time", retriable=True
        ),
        now,
    )


def target_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Write the next slice of a target assignment."""
    runtime = ctx.modern_runtime.get(key.group_id)
    if runtime is None or runtime.target_write is None:
        return
    _write_slice(ctx, runtime, runtime.target_write)
    if not runtime.target_write.is_whole:
        ctx.timers.set(TimerKind.TARGET, runtime.group_id, "", now)
    else:
        _finish(ctx, runtime, runtime.target_write, now)


def write_all(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Write the rest of a target at once, if one is being written."""
    target_write = runtime.target_write
    if target_write is None:
        return
    while not target_write.is_whole:
        _write_slice(ctx, runtime, target_write)
    ctx.timers.cancel(TimerKind.TARGET, runtime.group_id, "")
    _finish(ctx, runtime, target_write, now)


def _write_slice(ctx: Context, runtime: ModernGroupRuntime, target_write: TargetWrite) -> None:
    group, members, successors = (
        runtime.group,
        target_write.result.members,
        target_write.run.successors,
    )
    target_key = group.kind.codec.target_key
    size, end = 0, min(target_write.written + SLICE_MEMBERS, target_write.size)
    while target_write.written < end and size < SLICE_BYTES:
        place = target_write.written
        if place < len(members):
            member_id, value = members[place]
        else:
            member_id, value = target_write.withdrawn[place - len(members)], None
        target_write.written += 1
        member_id = successors.get(member_id, member_id)
        member = group.members.get(member_id)
        if member is None:
            target_write.left_out += 1
            continue
        target_write.members[member_id] = member.metadata
        if (before := group.targets.get(member_id)) is not None:
            target_write.before[member_id] = before
        ctx.emit(Record(target_key(group.group_id, member_id), value))
        size += 0 if value is None else len(value)


def _finish(ctx: Context, runtime: ModernGroupRuntime, target_write: TargetWrite, now: int) -> None:
    group, run = runtime.group, target_write.run
    epoch_before = target_fact.told_epoch(runtime)
    awaited = target_fact.awaited(runtime, target_write)
    runtime.target_write = None
    _emit_metadata(ctx, group, run.epoch, ctx.wall.at(now), 0)
    runtime.end_leases()
    if run.epoch > runtime.emptied_epoch:  # otherwise it is told already that all of them went
        target_fact.report_target(
            ctx, runtime, target_write, TargetStep(epoch_before, awaited, now)
        )
        runtime.assigned_ms = now
    runtime.freed = FreedTargets()
    runtime.taken_over.clear()
    runtime.first = None
    update(ctx, runtime, now)


def renew(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Put the present target in force again at a new group epoch, without a run of the assignor.

    All members then take another step towards it. The interval between runs does not start again.
    """
    group = runtime.group
    codec, epoch = group.kind.codec, group.epoch + 1
    ctx.emit(
        Record(codec.epoch_key(group.group_id), codec.epoch(group, epoch, group.metadata_hash))
    )
    _emit_metadata(ctx, group, epoch, group.assignment_timestamp_ms, 0)
    runtime.end_leases()
    runtime.taken_over.clear()
    runtime.assigned_ms = now


def _emit_metadata(
    ctx: Context, group: ModernGroup[Any], epoch: int, timestamp_ms: int, arriving_epoch: int
) -> None:
    codec = group.kind.codec
    value = codec.target_epoch(epoch, timestamp_ms, arriving_epoch)
    ctx.emit(Record(codec.target_epoch_key(group.group_id), value))
    if arriving_epoch:
        # The previous epoch's target may be in this turn too, and must be whole in the log.
        ctx.result.ends_batch = True


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {TimerKind.ASSIGNMENT: assignment_timeout, TimerKind.TARGET: target_timeout}
)
