"""Warm-up tasks of a group: the plan in force, and when the next step towards the target begins.

Kafka 4.4 calls a plan a refined assignment. The target assignment in the log is that of the
assignor; what members are assigned in a step is in the log too. The plan itself is soft state: a
new leader makes it again from both, and from the offsets that members report to it.

A plan holds for one assignment epoch. A next step begins a new group epoch with the same target.

The tasks of all members of a large group are looked at over several turns. Until then there is no
plan, and the members wait with the next step towards their targets.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.groups import settings as group_settings
from protocol.groups.modern import target as modern_target
from protocol.groups.modern.hard_state import ModernGroupState
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.streams.soft_state import StreamsSoftState
from protocol.groups.streams.task_offsets import NOTHING, lags
from protocol.groups.streams.warming.migrations import Plan, plan
from protocol.groups.streams.warming.task_index import NO_LAGS, PlannedMember, TaskIndex
from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    from protocol.groups.context import Context
    from protocol.groups.modern.hard_state import ModernGroup
    from protocol.groups.modern.reconcile import MemberAssignment
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.timers import TimerKey
    from protocol.groups.topic_numbers import Partition
    from protocol.wire.streams_messages import StreamsGroupHeartbeatRequest

TASKS_AT_ONCE: Final = 500
"""Tasks of members, in any role, that are looked at in one turn: about a millisecond."""

SILENT_INTERVALS: Final = 3
"""Offset intervals after which a member that has said nothing of a task is not waited for."""

WARMUP_REPLICAS: Final = "streams.num.warmup.replicas"
ACCEPTABLE_LAG: Final = "streams.acceptable.recovery.lag"
OFFSET_INTERVAL: Final = "streams.task.offset.interval.ms"


def acceptable_lag(ctx: Context, runtime: ModernGroupRuntime) -> int:
    """Return the number of offsets that a copy may be behind and still count as caught up."""
    return group_settings.integer(ctx, runtime.group_id, ACCEPTABLE_LAG)


def present_target(
    ctx: Context, runtime: ModernGroupRuntime, member: Any, target: Set[Partition]
) -> Set[Partition] | None:
    """Return what a member gets in the present step towards its target; None: not known yet."""
    group: Any = runtime.group
    if group.pending_target is not None:
        return target  # only half of it may be known: nothing moves before there is another
    made = _present_plan(ctx, runtime)
    return None if made is None else made.applied(member.member_id, target)


def next_step(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Begin the next step if members would get something else than they have."""
    own, group = runtime.own, runtime.group
    if not own.has_news or not _is_idle(runtime):
        return
    present = _present_plan(ctx, runtime)
    if present is None:
        return
    if not present.staged and not own.must_step:
        own.has_news = False
        return
    if group.state != ModernGroupState.STABLE and not own.must_step:
        return
    if not _is_indexed(ctx, runtime):
        return
    made = _make(ctx, runtime, group.epoch)
    must_step = own.must_step or made.differs(present, own.index.members)
    own.has_news = own.must_step = False
    own.plan = made
    if must_step:
        modern_target.renew(ctx, runtime, now)
        made.epoch = group.assignment_epoch


def index_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Look at the next members; after the last ones a step may begin."""
    runtime = ctx.modern_runtime.get(key.group_id)
    if runtime is None or not isinstance(runtime.own, StreamsSoftState):
        return
    runtime.own.unindexed, rest = None, runtime.own.unindexed
    if rest is None or runtime.group.pending_target is not None:
        return
    _look_at(ctx, runtime, rest)
    if not rest:
        next_step(ctx, runtime, now)


def note_settings(ctx: Context, runtime: ModernGroupRuntime) -> None:
    """Let a next step begin if the settings of warm-up tasks are others than before."""
    settings = _settings(ctx, runtime)
    if runtime.own.warmup_settings != settings:
        runtime.own.warmup_settings, runtime.own.has_news = settings, True


def note_version(runtime: ModernGroupRuntime, member_id: str, *, reports: bool) -> None:
    """Note whether a member can report offsets: otherwise no task waits until it has caught up."""
    own = runtime.own
    if reports == (member_id in own.unable):
        own.unable ^= {member_id}
        own.has_news |= own.plan is not None and bool(own.plan.staged)
    if len(own.unable) > 2 * len(runtime.group.members) + 1:
        own.unable &= {member_id, *runtime.group.members}


def note_report(
    ctx: Context, runtime: ModernGroupRuntime, message: StreamsGroupHeartbeatRequest
) -> None:
    """Let a next step begin if a task has caught up that is waited for."""
    if message.task_offsets is None and message.task_end_offsets is None:
        return
    group: Any = runtime.group
    own, member_id = runtime.own, message.member_id
    for gone in own.lags.keys() - group.members.keys():
        del own.lags[gone]
    own.lags[member_id] = told = lags(own.offsets.get(member_id, NOTHING), group.numbers)
    if any(lag is not None for lag in told.values()):
        own.silent.discard(member_id)
    awaited = () if own.plan is None else own.plan.awaited.get(member_id, ())
    limit = acceptable_lag(ctx, runtime)
    own.has_news |= any((lag := told.get(task)) is not None and lag <= limit for task in awaited)


def note_silence(ctx: Context, runtime: ModernGroupRuntime, member_id: str, now: int) -> None:
    """Wait no longer for a member that does not say how far its copy of a task is.

    Its tasks move at once, as those of a member that cannot say it; until it does say it.
    """
    own = runtime.own
    awaited = () if own.plan is None else own.plan.awaited.get(member_id, ())
    told = own.lags.get(member_id, NO_LAGS)
    if not awaited or any(told.get(task) is not None for task in awaited):
        own.awaited_since.pop(member_id, None)
        return
    since = own.awaited_since.setdefault(member_id, now)
    interval_ms = group_settings.integer(ctx, runtime.group_id, OFFSET_INTERVAL)
    if now - since < SILENT_INTERVALS * interval_ms:
        return
    members = runtime.group.members.keys()
    own.awaited_since = {
        each: own.awaited_since[each] for each in own.awaited_since.keys() & members
    }
    del own.awaited_since[member_id]
    own.silent = own.silent & members | {member_id}
    own.has_news = True


def rename(runtime: ModernGroupRuntime, old_id: str, new_id: str) -> None:
    """Let a static member take its predecessor's place in the plan."""
    if runtime.own.plan is not None:
        runtime.own.plan.rename(old_id, new_id)


def _is_idle(runtime: ModernGroupRuntime) -> bool:
    """Whether the target is that of the group's epoch, and nothing else is about to change it."""
    group: Any = runtime.group
    return (
        group.epoch == group.assignment_epoch
        and bool(group.members)
        and runtime.run is None
        and runtime.target_write is None
        and group.pending_target is None
        and not runtime.is_stale
        and group.configured is not None
        and group.configured.is_ready
    )


def _present_plan(ctx: Context, runtime: ModernGroupRuntime) -> Plan | None:
    """Return the plan of the present assignment epoch; make it if there is none yet.

    None: the members have not been looked at yet. Members that are at this epoch already have
    followed the plan of an earlier leader. If that was another one, all of them have to take
    another step.
    """
    own, group = runtime.own, runtime.group
    known: Plan | None = own.plan
    if known is not None and known.epoch == group.assignment_epoch:
        return known
    if not _is_indexed(ctx, runtime):
        return None
    own.plan = made = _make(ctx, runtime, group.assignment_epoch)
    if any(
        not _follows(made, group.members[member.member_id].assignment, member)
        for member in own.index.members.values()
    ):
        own.must_step = own.has_news = True
    return made


def _follows(made: Plan, assignment: MemberAssignment, member: PlannedMember) -> bool:
    """Whether a member at the epoch of a plan has nothing else than it gets by the plan."""
    if assignment.epoch != made.epoch:
        return True
    is_stable = assignment.state is MemberState.STABLE
    if member.member_id not in made.patches:
        return not (member.keeps_too_much or (is_stable and member.lacks_some))
    wanted = made.applied(member.member_id, member.target)
    assigned = member.assigned.keys()
    return assigned == wanted if is_stable else assigned <= wanted


def _is_planned(ctx: Context, runtime: ModernGroupRuntime) -> bool:
    """Whether any task can wait until its new owner has caught up."""
    replicas, _ = _settings(ctx, runtime)
    return bool(replicas) and not runtime.own.unable >= runtime.group.members.keys()


def _is_indexed(ctx: Context, runtime: ModernGroupRuntime) -> bool:
    """Whether the index of tasks is up to date; otherwise see to it, if need be in later turns."""
    own, group = runtime.own, runtime.group
    if own.plan is not None and not _is_planned(ctx, runtime):
        own.index, own.unindexed = TaskIndex(), None
        return True
    if own.unindexed is not None:
        return False
    index: TaskIndex = own.index
    for member_id in index.members.keys() - group.members.keys():
        index.drop(member_id)
    stale = [each.member_id for each in group.members.values() if _is_stale(index, group, each)]
    if stale:
        _look_at(ctx, runtime, stale)
    if stale:
        return False
    for member_id, member in index.members.items():
        member.lags = own.lags.get(member_id, NO_LAGS)
        member.reports = member_id not in own.unable and member_id not in own.silent
    return True


def _is_stale(index: TaskIndex, group: ModernGroup[Any], member: Any) -> bool:
    known = index.members.get(member.member_id)
    if known is None or known.source is None:
        return True
    target, assigned, revoking = known.source
    now = member.assignment
    return not (
        target == group.targets.get(member.member_id)
        and assigned is now.assigned
        and (revoking is now.revoking or not (revoking or now.revoking))
        and known.process_id == member.metadata.process_id
    )


def _look_at(ctx: Context, runtime: ModernGroupRuntime, stale: list[str]) -> None:
    """Look at members and take them from the list; the rest of them in the next turn."""
    group: Any = runtime.group
    topology = group.topology
    stateful = {
        group.numbers.known(name)
        for name, each in ({} if topology is None else topology.subtopologies).items()
        if each.state_changelog_topics
    }
    looked_at = 0
    while stale and looked_at < TASKS_AT_ONCE:
        member = group.members.get(stale.pop())
        if member is None:
            continue
        target = modern_target.of_member(ctx, group, member)
        assigned, revoking = member.assignment.assigned, member.assignment.revoking
        planned = PlannedMember(
            member.member_id,
            member.metadata.process_id,
            target,
            assigned,
            revoking,
            source=(group.targets.get(member.member_id), assigned, revoking),
        )
        runtime.own.index.put(planned, stateful)
        looked_at += len(target) + len(assigned)
    if stale:
        runtime.own.unindexed = stale
        ctx.timers.set(TimerKind.TASK_INDEX, runtime.group_id, "", 0)


def _make(ctx: Context, runtime: ModernGroupRuntime, epoch: int) -> Plan:
    replicas, limit = _settings(ctx, runtime)
    return plan(epoch, runtime.own.index, replicas, limit)


def _settings(ctx: Context, runtime: ModernGroupRuntime) -> tuple[int, int]:
    replicas = group_settings.integer(ctx, runtime.group_id, WARMUP_REPLICAS)
    return replicas, acceptable_lag(ctx, runtime)


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {TimerKind.TASK_INDEX: index_timeout}
)
