"""Share state of subscribed partitions: asked for, asked for again, and told to the assignor.

The group's record lists a partition as initializing; when that is committed, its share coordinator
is asked for share state. With the answer the record lists it as initialized; only then may members
get it, in a new group epoch. What failed is no longer initializing and asked for again after a
heartbeat interval, what is not answered after ``group.share.initialize.retry.interval.ms``. Topics
that were deleted are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.facts import TopicsCause
from protocol.groups.modern import group as modern
from protocol.groups.modern import steps as modern_steps
from protocol.groups.modern import target
from protocol.groups.share import persister
from protocol.groups.share.group import ShareGroup, share_group_of
from protocol.groups.share.state_topics import StateTopic
from protocol.groups.share_state.store import NO_START_OFFSET
from protocol.groups.timers import TimerKind
from protocol.records import Record, ShareGroupStatePartitionMetadataKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from protocol.groups.context import Context
    from protocol.groups.group_type import Built
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.share.soft_state import InitializationState
    from protocol.groups.share.state_topics import StateTopics
    from protocol.groups.timers import TimerKey
    from protocol.groups.topics import Topic, Topics

RETRY_INTERVAL: Final = "group.share.initialize.retry.interval.ms"

ASKED_MAX: Final = 500
"""Partitions whose share state is asked for at a time: a few milliseconds of work."""


def update(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Ask for the share state of subscribed partitions that have none, unless it is asked for.

    While much share state is being created, more is asked for when that is done.
    """
    group = share_group_of(runtime)
    soft: InitializationState = runtime.own
    checked = soft.checked
    if (
        checked is not None
        and checked[0] is ctx.topics
        and checked[1] is group.state_topics
        and checked[2] == group.metadata_hash
    ):
        return
    left = ASKED_MAX - _asked_for(ctx, group, soft, now)
    if left <= 0:
        return
    wanted, are_all = _missing(ctx, group, soft, left, now)
    if wanted:
        _begin(ctx, runtime, wanted, now)
    if are_all:
        soft.checked = (ctx.topics, group.state_topics, group.metadata_hash)


def _asked_for(ctx: Context, group: ShareGroup, soft: InitializationState, now: int) -> int:
    """Return how many partitions were asked for recently, and are not answered."""
    since_ms = now - ctx.configs.integer(RETRY_INTERVAL)
    initializing = group.state_topics.initializing
    return sum(
        len(initializing[topic_id].partitions)
        for topic_id, asked_ms in soft.asked_ms.items()
        if asked_ms > since_ms and topic_id in initializing
    )


def _missing(
    ctx: Context, group: ShareGroup, soft: InitializationState, left: int, now: int
) -> tuple[dict[UUID, StateTopic], bool]:
    """Return at most ``left`` partitions to ask for, and whether these are all.

    They have no share state, and were not asked for recently. The search goes on where it ended, so
    that partitions whose coordinator is away do not keep others waiting.
    """
    since_ms = now - ctx.configs.integer(RETRY_INTERVAL)
    wanted: dict[UUID, StateTopic] = {}
    names = sorted(group.topics)
    first = names.index(soft.last_asked) + 1 if soft.last_asked in group.topics else 0
    for name in names[first:] + names[:first]:
        topic = ctx.topics.by_name(name)
        if topic is None:
            continue
        missing = _missing_of(group.state_topics, soft, topic, since_ms)
        if missing and left <= 0:
            return wanted, False
        if missing:
            some = missing if len(missing) <= left else frozenset(sorted(missing)[:left])
            wanted[topic.topic_id] = StateTopic(name, some)
            soft.last_asked = name
            left -= len(missing)
    return wanted, left >= 0


def _missing_of(
    state: StateTopics, soft: InitializationState, topic: Topic, since_ms: int
) -> frozenset[int]:
    topic_id, count = topic.topic_id, topic.partitions
    initialized = state.initialized.get(topic_id)
    initializing = state.initializing.get(topic_id)
    known = frozenset[int]() if initialized is None else initialized.partitions
    if initializing is not None and soft.asked_ms.get(topic_id, since_ms) > since_ms:
        known |= initializing.partitions
    return frozenset() if len(known) >= count else frozenset(range(count)) - known


def _begin(
    ctx: Context, runtime: ModernGroupRuntime, wanted: Mapping[UUID, StateTopic], now: int
) -> None:
    group = share_group_of(runtime)
    group_id = group.group_id
    soft: InitializationState = runtime.own
    soft.asked_ms.update(dict.fromkeys(wanted, now))
    write(ctx, group_id, group.state_topics.beginning(wanted))
    start_offsets = {
        topic_id: dict.fromkeys(topic.partitions, NO_START_OFFSET)
        for topic_id, topic in wanted.items()
    }
    persister.initialize(ctx, group_id, group.epoch, start_offsets, Initialization(group_id))
    retry_ms = now + ctx.configs.integer(RETRY_INTERVAL)
    ctx.timers.set(TimerKind.SHARE_STATE, group_id, "", retry_ms)


@dataclass(frozen=True, slots=True)
class Initialization:
    """Partitions that a group's members wait for."""

    group_id: str

    def answered(self, ctx: Context, results: persister.Results, now: int) -> None:
        """List what has share state now."""
        take_results(ctx, self.group_id, results, now)


def take_results(ctx: Context, group_id: str, results: persister.Results, now: int) -> None:
    """Take what share coordinators did; what failed is asked for again soon."""
    done, failed = [], {}
    for topic_id, rows in results.by_topic.items():
        indexes = results.done(topic_id)
        done += [(topic_id, index) for index in sorted(indexes)]
        if len(indexes) < len(rows):
            failed[topic_id] = frozenset(rows) - indexes
    initialized(ctx, group_id, done, now)
    if failed:
        _not_initialized(ctx, group_id, failed, now)
        return
    runtime = ctx.modern_runtime.get(group_id)
    if runtime is not None and runtime.group.members and not runtime.is_stale:
        update(ctx, runtime, now)  # what was not asked for meanwhile


def _not_initialized(
    ctx: Context, group_id: str, partitions: Mapping[UUID, frozenset[int]], now: int
) -> None:
    """Stop waiting for share state that could not be created."""
    group = ctx.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return
    known = group.state_topics.initializing
    failed = {
        topic_id: StateTopic(known[topic_id].name, known[topic_id].partitions & indexes)
        for topic_id, indexes in partitions.items()
        if topic_id in known and known[topic_id].partitions & indexes
    }
    if failed:
        write(ctx, group_id, group.state_topics.not_begun(failed))
    runtime = ctx.modern_runtime.get(group_id)
    if runtime is not None:
        soft: InitializationState = runtime.own
        soft.checked = None
        for topic_id in partitions:
            soft.asked_ms.pop(topic_id, None)
        if group.members:
            again_ms = modern_steps.heartbeat_interval_ms(ctx, runtime)
            ctx.timers.set(TimerKind.SHARE_STATE, group_id, "", now + again_ms)


def write(ctx: Context, group_id: str, state: StateTopics) -> None:
    """Write which partitions have share state; this creates a group that is not there yet."""
    value = state.record()
    ctx.emitted = (value, state)
    ctx.emit(Record(ShareGroupStatePartitionMetadataKey(group_id), value))


def initialized(
    ctx: Context, group_id: str, partitions: Iterable[tuple[UUID, int]], now: int
) -> None:
    """Let members have partitions whose share state exists now.

    Ignore those that nobody waits for any more: the topic or the group was deleted meanwhile.
    """
    group = ctx.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return
    initializing = group.state_topics.initializing
    indexes: dict[UUID, set[int]] = {}
    for topic_id, index in partitions:
        topic = initializing.get(topic_id)
        if topic is not None and index in topic.partitions:
            indexes.setdefault(topic_id, set()).add(index)
    awaited = {
        topic_id: StateTopic(initializing[topic_id].name, frozenset(found))
        for topic_id, found in indexes.items()
    }
    if not awaited:
        return
    write(ctx, group.group_id, group.state_topics.done(awaited))
    runtime = ctx.modern_runtime.get(group_id)
    if runtime is None:
        return
    soft: InitializationState = runtime.own
    for topic_id in awaited.keys() - group.state_topics.initializing.keys():
        soft.asked_ms.pop(topic_id, None)
    if group.members and any(topic.name in group.topics for topic in awaited.values()):
        _assign(ctx, runtime, now)


def _assign(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Begin a group epoch, unless a target is due whose computation has not begun."""
    group = runtime.group
    runtime.feed.topics_changed = True
    is_under_way = runtime.run is not None or runtime.target_write is not None
    if is_under_way or group.assignment_epoch >= group.epoch:
        modern.bump_for_topics(ctx, runtime, TopicsCause.SHARE_STATE_INITIALIZED, now)
    target.update(ctx, runtime, now)


def state_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Drop deleted topics, and ask again for share state that has not come."""
    runtime = ctx.modern_runtime.get(key.group_id)
    if runtime is None:
        return
    group = share_group_of(runtime)
    soft: InitializationState = runtime.own
    gone = [each for each in group.state_topics.ids().items() if _is_deleted(ctx.topics, *each)]
    if gone:  # their share state is removed where it is
        write(ctx, group.group_id, group.state_topics.without(topic_id for topic_id, _ in gone))
    soft.checked = None
    if group.members and not runtime.is_stale:  # otherwise the next heartbeat looks at the topics
        update(ctx, runtime, now)
    if group.members and group.state_topics.initializing:
        retry_ms = ctx.configs.integer(RETRY_INTERVAL)
        ctx.timers.set(TimerKind.SHARE_STATE, key.group_id, "", now + retry_ms)


def _is_deleted(topics: Topics, topic_id: UUID, name: str) -> bool:
    """Whether this node knows that a topic was deleted: an unknown one may only be new to it."""
    return topic_id in topics.deleted.get(name, ())


def topics_changed(ctx: Context, before: Topics) -> None:
    """Make the groups check their share state that have some of a topic that was deleted."""
    gone = ctx.topics.deleted_since(before)
    if not gone:
        return
    for group_id, runtime in ctx.modern_runtime.items():
        group = runtime.group
        if isinstance(group, ShareGroup) and not gone.isdisjoint(group.state_topics.ids()):
            ctx.timers.set(TimerKind.SHARE_STATE, group_id, "", 0)


def build(ctx: Context, group_id: str, now: int) -> Built:
    """Build a group's soft state after an election; then check its share state."""
    built = modern.build(ctx, group_id, now)
    _check_soon(ctx, group_id, now)
    return built


def restore(ctx: Context, group_id: str, now: int) -> None:
    """Build the soft state of a group whose records were replayed; then check its share state."""
    modern.restore(ctx, group_id, now)
    _check_soon(ctx, group_id, now + modern.RETRY_MS)


def _check_soon(ctx: Context, group_id: str, at_ms: int) -> None:
    group = ctx.groups.get(group_id)
    if isinstance(group, ShareGroup) and group.state_topics:
        ctx.timers.set(TimerKind.SHARE_STATE, group_id, "", at_ms)


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {TimerKind.SHARE_STATE: state_timeout}
)
