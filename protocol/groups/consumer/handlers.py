"""Consumer groups (KIP-848): the table of contents.

====================== =========================================================================
``consumer_group``     hard state; ``consumer_replay`` how records change it
``modern``             soft state: sessions, leases, the group epoch, the hash of the topics
``consumer_heartbeat`` ConsumerGroupHeartbeat: the five steps
``consumer_steps``     the steps that ConsumerGroupHeartbeat and JoinGroup have in common
``consumer_members``   whose place a heartbeat speaks for; static members
``consumer_leave``     leaving, the session timeout, the rebalance timeout, LeaveGroup
``target``             the target assignment: when, by whom, how it comes into force (KIP-1263)
``target_feed``        what the assignor has yet to be told
``reconcile``          from what a member has to what it should have
``regexes``            subscriptions by regular expression
``consumer_describe``  ConsumerGroupDescribe, deletion
``consumer_offsets``   what a member may commit and fetch
``migration``          classic members among them, and how a group becomes one of another type
====================== =========================================================================
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.groups.classic import join as classic_join
from protocol.groups.classic import leave as classic_leave
from protocol.groups.classic import sync as classic_sync
from protocol.groups.consumer import describe as consumer_describe
from protocol.groups.consumer import heartbeat as consumer_heartbeat
from protocol.groups.consumer import leave as consumer_leave
from protocol.groups.consumer import replay as consumer_replay
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.effects import AssignmentComputed, AssignmentFailed, RegexesResolved
from protocol.groups.migration import mixed_join, mixed_sync
from protocol.groups.modern import regexes, target
from protocol.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.timers import TimerKey, TimerKind


def join_group(ctx: Context, request: Request, now: int) -> None:
    """Let classic members into groups of either type; an Empty one becomes a classic group."""
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    group = ctx.groups.get(message.group_id)
    if isinstance(group, ConsumerGroup):
        if group.members:
            mixed_join.join_group(ctx, request, now)
            return
        make_way = partial(consumer_describe.delete, ctx, group, now)
        classic_join.join_group(ctx, request, now, make_way)
        return
    classic_join.join_group(ctx, request, now)


def sync_group(ctx: Context, request: Request, now: int) -> None:
    """Answer a classic member of a group of either type."""
    message = request.message
    assert isinstance(message, SyncGroupRequest)
    if isinstance(ctx.groups.get(message.group_id), ConsumerGroup):
        mixed_sync.sync_group(ctx, request, now)
    else:
        classic_sync.sync_group(ctx, request, now)


def heartbeat(ctx: Context, request: Request, now: int) -> None:
    """Answer a classic member of a group of either type."""
    message = request.message
    assert isinstance(message, HeartbeatRequest)
    if isinstance(ctx.groups.get(message.group_id), ConsumerGroup):
        mixed_sync.heartbeat(ctx, request, now)
    else:
        classic_sync.heartbeat(ctx, request, now)


def leave_group(ctx: Context, request: Request, now: int) -> None:
    """Remove members of a group of either type."""
    message = request.message
    assert isinstance(message, LeaveGroupRequest)
    if isinstance(ctx.groups.get(message.group_id), ConsumerGroup):
        consumer_leave.leave_group(ctx, request, now)
    else:
        classic_leave.leave_group(ctx, request, now)


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {
        **consumer_heartbeat.HANDLERS,
        **consumer_describe.HANDLERS,
        JoinGroupRequest.__api_key__: join_group,
        SyncGroupRequest.__api_key__: sync_group,
        HeartbeatRequest.__api_key__: heartbeat,
        LeaveGroupRequest.__api_key__: leave_group,
    }
)
REPLAYS: Final = consumer_replay.REPLAYS
TIMEOUTS: Final[Mapping[TimerKind, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {**consumer_leave.TIMEOUTS, **mixed_sync.TIMEOUTS, **target.TIMEOUTS, **regexes.TIMEOUTS}
)
EVENTS: Final[Mapping[type, Callable[[Context, Any, int], None]]] = MappingProxyType(
    {
        AssignmentComputed: target.computed,
        AssignmentFailed: target.failed,
        RegexesResolved: regexes.resolved,
    }
)
