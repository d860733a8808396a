"""Consumer groups in use: the soft half, and what any change of a group has to do.

The same five steps answer every heartbeat (``consumer_heartbeat``): a member joins or changes, the
group epoch is bumped, the target assignment is brought up to date (``target``), the member takes
its next step towards it (``reconcile``), the answer is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from protocol.groups import settings as group_settings
from protocol.groups.consumer.group import ConsumerGroupState
from protocol.groups.consumer.replay import find as find_hard
from protocol.groups.diary import Diary
from protocol.groups.effects import CancelAssignment, HeartbeatLease
from protocol.groups.facts import (
    GroupReconciled,
    MemberEvent,
    MemberEventKind,
    TopicsCause,
    TopicsChanged,
)
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.modern.target_feed import TargetFeed
from protocol.groups.modern.unsettled import Unrest
from protocol.groups.timers import TimerKind
from protocol.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    Record,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.consumer.group import ConsumerGroup, ConsumerMember
    from protocol.groups.context import Context
    from protocol.groups.effects import AssignmentComputed
    from protocol.groups.topics import Topics
    from protocol.wire.messages import ConsumerGroupHeartbeatResponse

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
RACK_AWARE: Final = "consumer.assignor.rack.aware.enable"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"

MEMBER_TIMERS: Final = (
    TimerKind.MEMBER_SESSION,
    TimerKind.REVOCATION,
    TimerKind.MEMBER_JOIN,
    TimerKind.MEMBER_SYNC,
)

SETTLED: Final = (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)

SLICE_SESSIONS: Final = 500
"""Sessions armed per REBUILD timer."""


@dataclass(slots=True, eq=False, repr=False)
class Session:
    """What the leader keeps of a member: its session, and the answer that may be repeated.

    ``stamp`` is bumped by whatever could change that answer.
    """

    member: ConsumerMember
    session_timeout_ms: int
    session_deadline_ms: int = 0
    stamp: int = 0
    lease: HeartbeatLease | None = None
    answer: ConsumerGroupHeartbeatResponse | None = None

    def __repr__(self) -> str:
        return f"Session({self.member.member_id!r})"


@dataclass(frozen=True, slots=True)
class Change:
    """Since when (Unix ms) the target assignment lags behind, and why; None: that is not known."""

    since_ms: int
    cause: MemberEvent | TopicsCause | None


@dataclass(slots=True, eq=False)
class Run:
    """A run of the assignor under way: for which epoch, with which assignor, since when (Unix ms).

    ``number`` is what its task and its answer call it. ``successors`` maps members, as the run
    knows them, to the static members that have their place now; ``_known`` is the way back.
    """

    number: int
    epoch: int
    assignor: str
    started_ms: int
    in_place: bool
    change: Change
    successors: dict[str, str] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def replaced(self, old_id: str, new_id: str) -> None:
        """Note that a static member took another's place, which may have had another id before."""
        known = self._known.pop(old_id, old_id)
        self.successors[known] = new_id
        self._known[new_id] = known


@dataclass(slots=True, eq=False)
class Delivery:
    """A target assignment that is being written, slice by slice: ``written`` members so far.

    ``computed_ms``: when the run's answer came (Unix ms).
    """

    run: Run
    result: AssignmentComputed
    computed_ms: int
    written: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ModernGroup:
    """Soft state of a consumer group, on the leader only.

    ``is_stale``: the topics may have changed since ``metadata_hash`` was last compared; then the
    next heartbeat does so. ``image`` is the image of the topics that ``hash_sum`` was made from,
    with the partitions' racks if ``is_rack_aware``. ``change``: what first changed the group since
    the last run began. ``failed_epoch``: the assignor could do nothing with the group as of this
    epoch; ``retry_ms``: no run begins before. ``unarmed``: members that have no session yet after
    an election. ``resolving``: the version of the topics that regular expressions are being
    held against, None when they are not; ``has_new_topics``: they may match topics that they were
    not held against. ``must_bump``: the classic group that it was owes somebody a partition, so a
    new target is due whatever has changed since. ``assigned_ms``: since when members are on their
    way to the newest target, None when all have it. ``unrest``: for how long members have been told
    to come again soon.
    """

    group: ConsumerGroup
    sessions: dict[str, Session] = field(default_factory=dict)
    feed: TargetFeed = field(default_factory=TargetFeed)
    run: Run | None = None
    delivery: Delivery | None = None
    failures: int = 0
    failed_epoch: int = 0
    retry_ms: int = 0
    change: Change | None = None
    assigned_ms: int | None = None
    is_stale: bool = True
    image: Topics | None = None
    is_rack_aware: bool = False
    hash_sum: int = 0
    unarmed: list[str] = field(default_factory=list)
    resolving: int | None = None
    has_new_topics: bool = True
    must_bump: bool = False
    unrest: Unrest = field(default_factory=Unrest)
    diary: Diary = field(default_factory=Diary)

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self.group.group_id

    def end_leases(self) -> None:
        """Let no answer be repeated: the target is another one, or leadership is over."""
        for session in self.sessions.values():
            session.stamp += 1


# --- finding and forgetting


def find(ctx: Context, group_id: str, now: int) -> ModernGroup | None:
    """Find a consumer group, ready for use; None if there is none."""
    live = ctx.modern.get(group_id)
    if live is None:
        group = find_hard(ctx, group_id)
        if group is not None:
            live = _build(ctx, group, now)
    return live


def _build(ctx: Context, group: ConsumerGroup, now: int) -> ModernGroup:
    live = ModernGroup(group)
    ctx.modern[group.group_id] = live
    group.news = [(name, True) for name in group.topics]
    live.unarmed = list(group.members)[::-1]
    live.feed.must_answer_whole = group.arriving is not None
    ctx.timers.set(TimerKind.REFRESH, group.group_id, "", now)
    return live


def arm_slice(ctx: Context, live: ModernGroup, now: int) -> int:
    """Give the next members their sessions after an election; return how many."""
    armed = 0
    while live.unarmed and armed < SLICE_SESSIONS:
        member_id = live.unarmed.pop()
        if member_id in live.group.members:
            session_of(ctx, live, member_id, now)
            armed += 1
    return armed


def session_of(ctx: Context, live: ModernGroup, member_id: str, now: int) -> Session:
    """Give a member's session; one that was there before an election counts from then."""
    session = live.sessions.get(member_id)
    if session is None:
        member = live.group.members[member_id]
        timeout_ms = session_timeout_ms(ctx, live, member)
        live.sessions[member_id] = session = Session(member, timeout_ms)
        since_ms = now if ctx.elected_ms is None else ctx.elected_ms
        arm(ctx, live, session, max(since_ms + timeout_ms, now))
        standing = member.standing
        if standing.state is MemberState.UNREVOKED_PARTITIONS and standing.epoch >= 0:
            arm_revocation(ctx, live, member, since_ms)
    return session


def session_timeout_ms(ctx: Context, live: ModernGroup, member: ConsumerMember) -> int:
    """Tell how long nothing may be heard of a member: a classic one brings its own time."""
    classic = member.metadata.classic_member_metadata
    if classic is not None:
        return classic.session_timeout_ms
    return group_settings.integer(ctx, live.group_id, SESSION_TIMEOUT)


def resigned(ctx: Context) -> None:
    """Stop leading: end every lease, call off what is under way, forget the soft state."""
    for live in ctx.modern.values():
        live.end_leases()
        live.group.news = None
        cancel_run(ctx, live)
    ctx.modern.clear()
    ctx.subscribers.clear()
    ctx.topics_version += 1  # while another leads nobody counts what becomes of the topics


def forget(ctx: Context, live: ModernGroup) -> None:
    """Drop the soft state of a group that is being deleted or becomes another type of group."""
    live.end_leases()
    cancel_run(ctx, live)
    timers, group_id = ctx.timers, live.group_id
    for member_id in live.sessions:
        for kind in MEMBER_TIMERS:
            timers.cancel(kind, group_id, member_id)
    for kind in (TimerKind.ASSIGNMENT, TimerKind.TARGET, TimerKind.REFRESH):
        timers.cancel(kind, group_id, "")
    for name in live.group.topics:
        _unsubscribe(ctx, name, group_id)
    live.group.news = None
    ctx.modern.pop(group_id, None)


def cancel_run(ctx: Context, live: ModernGroup) -> None:
    """Let go of a run: whatever it answers comes too late."""
    if live.run is not None and not live.run.in_place:
        ctx.submit(CancelAssignment(group_id=live.group_id))
    live.run = None


# --- sessions


def arm(ctx: Context, live: ModernGroup, session: Session, deadline_ms: int) -> None:
    """Expect to hear of the member by then."""
    session.session_deadline_ms = deadline_ms
    member_id = session.member.member_id
    ctx.timers.set(TimerKind.MEMBER_SESSION, live.group_id, member_id, deadline_ms)


def arm_revocation(ctx: Context, live: ModernGroup, member: ConsumerMember, now: int) -> None:
    """Give a member its rebalance timeout to give up partitions: a classic one by joining again."""
    kind = TimerKind.MEMBER_JOIN if member.is_classic else TimerKind.REVOCATION
    deadline_ms = now + max(member.metadata.rebalance_timeout_ms, 0)
    ctx.timers.set(kind, live.group_id, member.member_id, deadline_ms)


def drop_session(ctx: Context, live: ModernGroup, member_id: str) -> None:
    """End a member's session: it is gone."""
    session = live.sessions.pop(member_id, None)
    if session is not None:
        session.stamp += 1
    for kind in MEMBER_TIMERS:
        ctx.timers.cancel(kind, live.group_id, member_id)


def changed_protocol(ctx: Context, live: ModernGroup, member: ConsumerMember, now: int) -> None:
    """Wait for a member as for others of the consumer protocol: it was a classic one before."""
    group_id, member_id = live.group_id, member.member_id
    ctx.timers.cancel(TimerKind.MEMBER_JOIN, group_id, member_id)
    ctx.timers.cancel(TimerKind.MEMBER_SYNC, group_id, member_id)
    if member.standing.state is MemberState.UNREVOKED_PARTITIONS:
        arm_revocation(ctx, live, member, now)
    session = session_of(ctx, live, member_id, now)
    session.session_timeout_ms = session_timeout_ms(ctx, live, member)


def lease(session: Session) -> HeartbeatLease:
    """Allow the answer to be repeated until something changes."""
    held = session.lease
    if held is None or held.stamp != session.stamp:
        session.lease = held = HeartbeatLease(session, session.stamp, session)
    return held


def configs_changed(ctx: Context, live: ModernGroup) -> None:
    """Follow new configs: the next heartbeat of each member is answered, and counts, by them."""
    for session in live.sessions.values():
        session.session_timeout_ms = session_timeout_ms(ctx, live, session.member)
        session.answer = None
        session.stamp += 1
    if live.is_rack_aware != group_settings.boolean(ctx, live.group_id, RACK_AWARE):
        live.is_stale = True
    if live.is_stale or live.group.regex_members:
        ctx.timers.set(TimerKind.REFRESH, live.group_id, "", 0)


# --- the group epoch and the topics' hash


def bump(
    ctx: Context, live: ModernGroup, cause: MemberEvent | TopicsCause | None, now: int
) -> None:
    """Begin a new group epoch: the target assignment has to be computed anew."""
    group = live.group
    live.change = (live.change or Change(now, cause)) if group.members else None
    value = ConsumerGroupMetadataValue(
        epoch=group.epoch + 1, metadata_hash=metadata_hash(ctx, live)
    )
    ctx.emit(Record(ConsumerGroupMetadataKey(live.group_id), value))
    live.is_stale = live.must_bump = False


def bump_for_topics(ctx: Context, live: ModernGroup, cause: TopicsCause, now: int) -> None:
    """Begin a new group epoch because the group's topics are others."""
    bump(ctx, live, cause, now)
    epoch = live.group.epoch
    ctx.fact(TopicsChanged(group_id=live.group_id, time_ms=now, cause=cause, epoch=epoch))


def tell_if_settled(ctx: Context, live: ModernGroup, now: int) -> None:
    """Say so, once, when every member has its target assignment, or none is left."""
    group, assigned_ms = live.group, live.assigned_ms
    if assigned_ms is None or group.state not in SETTLED:
        return
    live.assigned_ms = None
    ctx.fact(
        GroupReconciled(
            group_id=live.group_id,
            time_ms=now,
            epoch=group.assignment_epoch,
            assigned_ms=assigned_ms,
            members=len(group.members),
        )
    )


def bump_if_topics_changed(ctx: Context, live: ModernGroup, now: int) -> None:
    """Begin a new group epoch if the subscribed topics are not what they were."""
    if metadata_hash(ctx, live) != live.group.metadata_hash:
        bump_for_topics(ctx, live, TopicsCause.TOPICS_CHANGED, now)
    live.is_stale = False


def metadata_hash(ctx: Context, live: ModernGroup) -> int:
    """Hash the subscribed topics that exist: a signed 64-bit sum, kept up as topics come and go."""
    group = live.group
    is_rack_aware = group_settings.boolean(ctx, live.group_id, RACK_AWARE)
    has_image = live.image is ctx.topics and live.is_rack_aware == is_rack_aware
    live.is_rack_aware = is_rack_aware
    for name, is_new in group.news or ():
        live.feed.topics_changed = True
        if is_new:
            ctx.subscribers.setdefault(name, set()).add(group.group_id)
        else:
            _unsubscribe(ctx, name, group.group_id)
        if has_image:
            value = _topic_hash(ctx, name, is_rack_aware)
            live.hash_sum += value if is_new else -value
    group.news = []
    if not has_image:
        live.image = ctx.topics
        live.feed.topics_changed = True
        live.hash_sum = sum(_topic_hash(ctx, name, is_rack_aware) for name in group.topics)
    unsigned = live.hash_sum % (1 << 64)
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


def _unsubscribe(ctx: Context, name: str, group_id: str) -> None:
    groups = ctx.subscribers.get(name)
    if groups is not None:
        groups.discard(group_id)
        if not groups:
            del ctx.subscribers[name]


def _topic_hash(ctx: Context, name: str, with_racks: bool) -> int:
    """Hash what an assignor knows of a topic; 0 for a topic that does not exist."""
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


def topics_changed(ctx: Context, names: Iterable[str], has_new: bool) -> None:
    """Have the groups that subscribe to these topics look at them again.

    ``has_new``: some topic did not exist before, so that regular expressions may match more.
    """
    concerned: set[str] = set()
    for name in names:
        concerned |= ctx.subscribers.get(name, set())
    if has_new:
        ctx.topics_version += 1
        for group_id, live in ctx.modern.items():
            if live.group.regex_members:
                live.has_new_topics = True
                concerned.add(group_id)
    for group_id in concerned:
        if group_id in ctx.modern:
            ctx.modern[group_id].is_stale = True
            ctx.modern[group_id].end_leases()
            ctx.timers.set(TimerKind.REFRESH, group_id, "", 0)


def event(
    live: ModernGroup, member: ConsumerMember, kind: MemberEventKind, now: int
) -> MemberEvent:
    """Say what became of a member."""
    metadata = member.metadata
    return MemberEvent(
        group_id=live.group_id,
        time_ms=now,
        kind=kind,
        member_id=member.member_id,
        group_instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
    )
