"""Expiry of committed offsets (KIP-211), and of Empty groups without offsets.

An offset's retention begins according to the policy of its group's type (``OffsetPolicy``):

- when its group became Empty, for a group that has had members (when the offset was committed, if
  an old record lacks the time since which the group is Empty),
- when it was committed, for a simple consumer, in a group of the consumer protocol (KIP-848), and
  for a topic that no member of a Stable classic consumer group subscribes to any more;

and never while the group rebalances or has members of another protocol type. A client that set its
own retention time (OffsetCommit 2-4) gets exactly that, in all of these cases.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from protocol.groups.group_type import committing_type
from protocol.groups.timers import TimerKey, TimerKind
from protocol.records import OffsetCommitKey, OffsetCommitValue, Record

if TYPE_CHECKING:
    from protocol.config import Configs
    from protocol.groups.context import Context

CHECK_INTERVAL: Final = "offsets.retention.check.interval.ms"

SLICE: Final = 5_000
"""Groups and offsets checked per slice: heartbeats in between must not wait."""


def arm(ctx: Context, now: int) -> None:
    """Begin a round one check interval from now (at election)."""
    interval_ms = ctx.configs.integer(CHECK_INTERVAL)
    ctx.timers.set(TimerKind.OFFSET_EXPIRY, "", "", now + interval_ms)


def configs_changed(ctx: Context, before: Configs) -> None:
    """Reschedule the next round: the new interval counts from the end of the last round."""
    deadline_ms = ctx.timers.deadline(TimerKind.OFFSET_EXPIRY, "", "")
    if deadline_ms is not None:
        longer_ms = ctx.configs.integer(CHECK_INTERVAL) - before.integer(CHECK_INTERVAL)
        ctx.timers.set(TimerKind.OFFSET_EXPIRY, "", "", deadline_ms + longer_ms)


def expire(ctx: Context, key: TimerKey, now: int) -> None:
    """Check one slice of the groups; the timer's member id says where it begins.

    While the wall clock is not settled nothing expires; the next round checks again.
    """
    if not ctx.wall.is_settled:
        arm(ctx, now)
        return
    position = int(key.member_id or 0)
    looked_at = 0
    for group_id in list(islice(ctx.groups, position, position + SLICE)):
        if looked_at >= SLICE:
            break
        looked_at += 1 + sum(map(len, ctx.offsets.get(group_id, {}).values()))
        ctx.contain(group_id, "offset expiry", _expire_group, ctx, group_id, now)
        position += group_id in ctx.groups  # those behind a deleted group move up
    if position < len(ctx.groups):
        ctx.timers.set(TimerKind.OFFSET_EXPIRY, "", str(position), now)
    else:
        arm(ctx, now)


def _expire_group(ctx: Context, group_id: str, now: int) -> None:
    """Remove a group's expired offsets; delete the group if nothing is left."""
    committed = ctx.offsets.get(group_id, {})
    kind = committing_type(ctx, group_id)
    policy = kind.offsets
    expires = policy.retention_start(ctx, group_id)
    kept = policy.subscribed_topics(ctx, group_id) or frozenset() if committed else frozenset()
    retention_ms = ctx.configs.integer("offsets.retention.minutes") * 60_000
    doomed = []
    for topic, partitions in committed.items():
        if expires is None or topic in kept:
            continue
        doomed += [
            OffsetCommitKey(group_id, topic, index)
            for index, value in partitions.items()
            if _is_expired(value, expires(value) + retention_ms, ctx.wall.at(now))
        ]
    for key in doomed:
        ctx.emit(Record(key, None))
    ctx.offset_counts.expired += len(doomed)
    if group_id not in ctx.offsets and kind.is_abandoned(ctx, group_id):
        kind.delete(ctx, group_id, now)


def _is_expired(value: OffsetCommitValue, expiry_ms: int, wall_ms: int) -> bool:
    return wall_ms >= (expiry_ms if value.expire_timestamp == -1 else value.expire_timestamp)


def committed_ms(value: OffsetCommitValue) -> int:
    """Return the commit time of an offset, as the start of its retention."""
    return value.commit_timestamp
