"""Modern groups in use: the soft state, and the work that any change of a group causes.

The same five steps answer every heartbeat (``consumer_heartbeat``): a member joins or changes, the
group epoch is bumped, the target assignment is updated (``target``), the member takes its next step
towards it (``reconcile``), the answer is sent.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from protocol.groups import settings as group_settings
from protocol.groups.effects import CancelAssignment, HeartbeatLease
from protocol.groups.facts import (
    GONE,
    GroupDeleted,
    GroupReconciled,
    MemberEvent,
    MemberEventKind,
    NamedMember,
    TakenOver,
    TopicsCause,
    TopicsChanged,
)
from protocol.groups.group_type import Built
from protocol.groups.modern import first_target, spares
from protocol.groups.modern.hard_state import ModernGroup, ModernGroupState
from protocol.groups.modern.kind import GROUP_TIMERS
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.modern.runtime import Change, ModernGroupRuntime, Session
from protocol.groups.timers import TimerKind
from protocol.records import Record

if TYPE_CHECKING:
    from kio.static.protocol import Entity

    from protocol.groups.context import Context
    from protocol.groups.event_log import MemberEventLog
    from protocol.groups.modern.hard_state import ModernGroupMember
    from protocol.groups.modern.kind import ModernKind
    from protocol.groups.topics import Topics


SETTLED: Final = (ModernGroupState.STABLE, ModernGroupState.EMPTY)

SLICE_SESSIONS: Final = 500
"""Sessions armed per REBUILD timer."""

RETRY_MS: Final = 1_000
"""How soon a restored group's topics and target are checked: a failure must not loop."""


# --- finding and forgetting


def _find_hard(ctx: Context, group_id: str) -> ModernGroup[Any] | None:
    group = ctx.groups.get(group_id)
    return group if isinstance(group, ModernGroup) else None


def find(ctx: Context, group_id: str, now: int) -> ModernGroupRuntime | None:
    """Return a consumer group, ready for use; None if there is none."""
    runtime = ctx.modern_runtime.get(group_id)
    if runtime is None:
        group = _find_hard(ctx, group_id)
        if group is not None:
            runtime = _build(ctx, group, now)
    return runtime


def _build(ctx: Context, group: ModernGroup[Any], now: int) -> ModernGroupRuntime:
    runtime = ModernGroupRuntime(group)
    ctx.modern_runtime[group.group_id] = runtime
    if group.epoch > group.assignment_epoch and group.members:
        since_ms = now if ctx.elected_ms is None else ctx.elected_ms
        runtime.change = Change(since_ms, None)  # another coordinator saw what it was
    group.topic_changes = [(name, True) for name in group.topics]
    runtime.unarmed = list(group.members)[::-1]
    runtime.feed.must_answer_whole = group.pending_target is not None
    if group.members and not group.targets and group.pending_target is None:
        first_target.begin(ctx, runtime, now)
    ctx.timers.set(TimerKind.REFRESH, group.group_id, "", now)
    return runtime


def arm_slice(ctx: Context, runtime: ModernGroupRuntime, now: int) -> int:
    """Arm the sessions of the next members after an election; return how many."""
    armed = 0
    while runtime.unarmed and armed < SLICE_SESSIONS:
        member_id = runtime.unarmed.pop()
        if member_id in runtime.group.members:
            session_of(ctx, runtime, member_id, now)
            armed += 1
    return armed


def build(ctx: Context, group_id: str, now: int) -> Built:
    """Build a group's soft state after an election, or arm the sessions of its next members."""
    runtime = find(ctx, group_id, now)
    assert runtime is not None
    armed = arm_slice(ctx, runtime, now)
    return Built(armed, is_whole=not runtime.unarmed)


def restore(ctx: Context, group_id: str, now: int) -> None:
    """Build the soft state of a group whose records were replayed; its sessions begin now."""
    runtime = find(ctx, group_id, now)
    kept = ctx.kept_for_operators.pop(group_id, None)
    if runtime is not None:
        if kept is not None:
            runtime.keep(kept)
        while runtime.unarmed:
            arm_slice(ctx, runtime, now)
        ctx.timers.set(TimerKind.REFRESH, group_id, "", now + RETRY_MS)


def session_of(ctx: Context, runtime: ModernGroupRuntime, member_id: str, now: int) -> Session:
    """Return a member's session; for a member from before an election it starts at the election."""
    session = runtime.sessions.get(member_id)
    if session is None:
        member = runtime.group.members[member_id]
        timeout_ms = session_timeout_ms(ctx, runtime, member)
        runtime.sessions[member_id] = session = Session(member, timeout_ms)
        since_ms = now if ctx.elected_ms is None else ctx.elected_ms
        arm(ctx, runtime, session, max(since_ms + timeout_ms, now))
        assignment = member.assignment
        if assignment.state is MemberState.UNREVOKED_PARTITIONS and assignment.epoch >= 0:
            arm_revocation(ctx, runtime, member, since_ms)
    return session


def session_timeout_ms(ctx: Context, runtime: ModernGroupRuntime, member: ModernGroupMember) -> int:
    """Return the session timeout of a member; some members bring their own."""
    own_ms = member.session_timeout_ms
    if own_ms is not None:
        return own_ms
    return group_settings.integer(ctx, runtime.group_id, runtime.group.kind.configs.session_timeout)


def shift_deadlines(ctx: Context, stall_ms: int) -> None:
    """Shift the members' session deadlines by the time that this process was stalled."""
    for runtime in ctx.modern_runtime.values():
        for session in runtime.sessions.values():
            session.session_deadline_ms += stall_ms


def events_of(ctx: Context, group_id: str) -> MemberEventLog | None:
    """Return the recent events of a group's members."""
    runtime = ctx.modern_runtime.get(group_id)
    return None if runtime is None else runtime.event_log


def resigned(ctx: Context) -> None:
    """Stop leading: end every lease, cancel work under way, drop the soft state."""
    for runtime in ctx.modern_runtime.values():
        runtime.end_leases()
        runtime.group.topic_changes = None
        cancel_run(ctx, runtime)
    ctx.modern_runtime.clear()
    ctx.subscribers.clear()
    ctx.topics_version += 1  # changes of the topics are not counted while another node leads


def forget(ctx: Context, runtime: ModernGroupRuntime) -> None:
    """Drop the soft state of a group that is being deleted or changes its type."""
    runtime.end_leases()
    cancel_run(ctx, runtime)
    timers, group_id = ctx.timers, runtime.group_id
    for member_id in runtime.sessions:
        for kind in runtime.group.kind.member_timers:
            timers.cancel(kind, group_id, member_id)
    for kind in runtime.group.kind.group_timers:
        timers.cancel(kind, group_id, "")
    for name in runtime.group.topics:
        _unsubscribe(ctx, name, group_id)
    runtime.group.topic_changes = None
    ctx.modern_runtime.pop(group_id, None)


def delete(ctx: Context, group_id: str, now: int) -> None:
    """Remove an Empty group from the log."""
    group = _find_hard(ctx, group_id)
    assert group is not None
    assert not group.members
    runtime = ctx.modern_runtime.get(group_id)
    if runtime is not None:
        forget(ctx, runtime)
    codec = group.kind.codec
    doomed: list[Entity] = [
        *(codec.target_key(group_id, each) for each in group.targets),
        codec.target_epoch_key(group_id),
    ]
    if codec.regex_key is not None:
        doomed += (codec.regex_key(group_id, regex) for regex in group.regexes)
    for key in (*doomed, codec.epoch_key(group_id)):
        ctx.emit(Record(key, None))
    ctx.fact(GroupDeleted(group_id=group_id, time_ms=now))


def forget_failed(ctx: Context, group_id: str) -> None:
    """Drop the soft state of a group whose handling raised; the caller replays its records."""
    members: set[str] = set()
    kind: ModernKind | None = None
    runtime = ctx.modern_runtime.pop(group_id, None)
    if runtime is not None:
        ctx.kept_for_operators[group_id] = runtime.for_operators()
        runtime.end_leases()
        cancel_run(ctx, runtime)
        members.update(runtime.sessions)
        kind = runtime.group.kind
    group = _find_hard(ctx, group_id)
    if group is not None:
        kind = group.kind
        group.topic_changes = None
        members.update(group.members)
        for name in group.topics:
            _unsubscribe(ctx, name, group_id)
    for timer in GROUP_TIMERS if kind is None else kind.group_timers:
        ctx.timers.cancel(timer, group_id, "")
    for member_id in members:
        for timer in () if kind is None else kind.member_timers:
            ctx.timers.cancel(timer, group_id, member_id)


def cancel_run(ctx: Context, runtime: ModernGroupRuntime) -> None:
    """Cancel a run: its answer will be ignored."""
    if runtime.run is not None and not runtime.run.in_place:
        ctx.submit(CancelAssignment(group_id=runtime.group_id))
    runtime.run = None


# --- sessions


def arm(ctx: Context, runtime: ModernGroupRuntime, session: Session, deadline_ms: int) -> None:
    """Set the deadline of the member's session."""
    session.session_deadline_ms = deadline_ms
    member_id = session.member.member_id
    ctx.timers.set(TimerKind.MEMBER_SESSION, runtime.group_id, member_id, deadline_ms)


def arm_revocation(
    ctx: Context, runtime: ModernGroupRuntime, member: ModernGroupMember, now: int
) -> None:
    """Start the member's rebalance timeout for revoking partitions."""
    deadline_ms = now + max(member.rebalance_timeout_ms, 0)
    ctx.timers.set(member.revocation_timer, runtime.group_id, member.member_id, deadline_ms)


def drop_session(ctx: Context, runtime: ModernGroupRuntime, member_id: str) -> None:
    """End the session of a member that is gone."""
    runtime.client_software.pop(member_id, None)
    session = runtime.sessions.pop(member_id, None)
    if session is not None:
        session.stamp += 1
    for kind in runtime.group.kind.member_timers:
        ctx.timers.cancel(kind, runtime.group_id, member_id)


def lease(session: Session) -> HeartbeatLease:
    """Allow the answer to be repeated until something changes."""
    held = session.lease
    if held is None or held.stamp != session.stamp:
        session.lease = held = HeartbeatLease(session, session.stamp, session)
    return held


def configs_changed(ctx: Context, runtime: ModernGroupRuntime) -> None:
    """Apply new configs: no earlier answer is repeated to the members' next heartbeats."""
    for session in runtime.sessions.values():
        session.session_timeout_ms = session_timeout_ms(ctx, runtime, session.member)
        session.answer = None
        session.stamp += 1
    if runtime.is_rack_aware != is_rack_aware(ctx, runtime) or runtime.group.kind.prepare:
        runtime.is_stale = True
    if runtime.is_stale or runtime.group.regex_members or spares.are_due(ctx, runtime):
        ctx.timers.set(TimerKind.REFRESH, runtime.group_id, "", 0)


# --- the group epoch and the topics' hash


def bump(
    ctx: Context, runtime: ModernGroupRuntime, cause: MemberEvent | TopicsCause | None, now: int
) -> None:
    """Begin a new group epoch: the target assignment must be computed again."""
    group = runtime.group
    runtime.change = (runtime.change or Change(now, cause)) if group.members else None
    codec = group.kind.codec
    _prepare(ctx, runtime)
    value = codec.epoch(group, group.epoch + 1, metadata_hash(ctx, runtime))
    ctx.emit(Record(codec.epoch_key(runtime.group_id), value))
    runtime.is_stale = runtime.must_bump = False


def bump_for_topics(
    ctx: Context, runtime: ModernGroupRuntime, cause: TopicsCause, now: int
) -> None:
    """Begin a new group epoch because the group's topics have changed."""
    bump(ctx, runtime, cause, now)
    epoch = runtime.group.epoch
    ctx.fact(TopicsChanged(group_id=runtime.group_id, time_ms=now, cause=cause, epoch=epoch))


def report_if_settled(
    ctx: Context, runtime: ModernGroupRuntime, now: int, last: ModernGroupMember | None = None
) -> None:
    """Report once when every member has its target assignment.

    ``last`` is the member that has just taken a step.
    """
    group, assigned_ms = runtime.group, runtime.assigned_ms
    if assigned_ms is None:
        return
    if last is not None and _has_target(group, last):
        runtime.taken_over.append(TakenOver(now, NamedMember(last.member_id, last.metadata)))
    if group.state not in SETTLED:
        return
    runtime.assigned_ms = None
    ctx.fact(
        GroupReconciled(
            group_id=runtime.group_id,
            time_ms=now,
            epoch=group.assignment_epoch,
            assigned_ms=assigned_ms,
            members=len(group.members),
            last=None if last is None else NamedMember(last.member_id, last.metadata),
            taken_over=tuple(runtime.taken_over),
        )
    )


def _has_target(group: ModernGroup[Any], member: ModernGroupMember) -> bool:
    assignment = member.assignment
    return assignment.epoch == group.assignment_epoch and assignment.state is MemberState.STABLE


def _prepare(ctx: Context, runtime: ModernGroupRuntime) -> TopicsCause | None:
    prepare = runtime.group.kind.prepare
    return None if prepare is None else prepare(ctx, runtime)


def bump_if_topics_changed(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Begin a new group epoch if the subscribed topics, or what the type derives, have changed."""
    cause = _prepare(ctx, runtime)
    if cause is None:
        bump_if_hash_differs(ctx, runtime, now)
    else:
        bump_for_topics(ctx, runtime, cause, now)
    runtime.is_stale = False


def bump_if_hash_differs(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Begin a new group epoch if the present one's record has the hash of other topics.

    A new leader may know fewer topics or partitions than the one before. A target computed from
    those must not count as the target of all of them once this node knows more.
    """
    if metadata_hash(ctx, runtime) != runtime.group.metadata_hash:
        bump_for_topics(ctx, runtime, TopicsCause.TOPICS_CHANGED, now)


def is_rack_aware(ctx: Context, runtime: ModernGroupRuntime) -> bool:
    """Whether the racks of members and partitions matter to the group's assignors."""
    config = runtime.group.kind.configs.rack_aware
    return config is not None and group_settings.boolean(ctx, runtime.group_id, config)


def metadata_hash(ctx: Context, runtime: ModernGroupRuntime) -> int:
    """Hash the subscribed topics that exist: a signed 64-bit sum, updated as topics change."""
    group = runtime.group
    has_racks = is_rack_aware(ctx, runtime)
    has_image = runtime.image is ctx.topics and runtime.is_rack_aware == has_racks
    runtime.is_rack_aware = has_racks
    for name, is_new in group.topic_changes or ():
        runtime.feed.topics_changed = True
        if is_new:
            ctx.subscribers.setdefault(name, set()).add(group.group_id)
        else:
            _unsubscribe(ctx, name, group.group_id)
        if has_image:
            value = _topic_hash(ctx, name, has_racks)
            runtime.hash_sum += value if is_new else -value
    group.topic_changes = []
    if not has_image:
        runtime.image = ctx.topics
        runtime.feed.topics_changed = True
        runtime.hash_sum = sum(_topic_hash(ctx, name, has_racks) for name in group.topics)
    unsigned = runtime.hash_sum % (1 << 64)
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


def _unsubscribe(ctx: Context, name: str, group_id: str) -> None:
    groups = ctx.subscribers.get(name)
    if groups is not None:
        groups.discard(group_id)
        if not groups:
            del ctx.subscribers[name]


def _topic_hash(ctx: Context, name: str, with_racks: bool) -> int:
    """Hash a topic as an assignor sees it; 0 for a topic that does not exist."""
    topic = ctx.topics.by_name(name)
    if topic is None:
        return 0
    hashes = ctx.rack_hashes if with_racks else ctx.topic_hashes
    kept = hashes.get(name)
    if kept is not None and kept[0] is topic:
        return kept[1]
    racks = ctx.topics.partition_racks(topic) if with_racks else ()
    text = repr((topic.topic_id.int, topic.name, topic.partitions, racks))
    value = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    hashes[name] = (topic, value)
    return value


def topics_changed(ctx: Context, before: Topics) -> None:
    """Make the groups that subscribe to changed topics check them again.

    Regular expressions may also match topics that did not exist before.
    """
    if before.racks != ctx.topics.racks:
        ctx.rack_hashes.clear()
    if not ctx.modern_runtime:
        return
    names, has_new = before.changed(ctx.topics)
    concerned: set[str] = set()
    for name in names:
        concerned |= ctx.subscribers.get(name, set())
    if has_new:
        ctx.topics_version += 1
        for group_id, runtime in ctx.modern_runtime.items():
            if runtime.group.regex_members:
                runtime.has_new_topics = True
                concerned.add(group_id)
    for group_id in concerned:
        if group_id in ctx.modern_runtime:
            ctx.modern_runtime[group_id].is_stale = True
            ctx.modern_runtime[group_id].end_leases()
            ctx.timers.set(TimerKind.REFRESH, group_id, "", 0)


def event(
    ctx: Context,
    runtime: ModernGroupRuntime,
    member: ModernGroupMember,
    kind: MemberEventKind,
    now: int,
) -> MemberEvent:
    """Return an event about a member."""
    metadata = member.metadata
    session = runtime.sessions.get(member.member_id) if kind in GONE else None
    return MemberEvent(
        group_id=runtime.group_id,
        time_ms=now,
        kind=kind,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        client_software=runtime.client_software.get(member.member_id, ""),
        silent_ms=None if session is None else ctx.silent_ms(session, now),
    )
