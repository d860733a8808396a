"""The edges between classic and consumer groups (KIP-848, online migration)."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.classic import join as classic_join
from protocol.groups.classic.group import ClassicGroup
from protocol.groups.consumer import leave as consumer_leave
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.group_type import MigrationEdge, ShardPart
from protocol.groups.migration import downgrade as migration_downgrade
from protocol.groups.migration import mixed_join, mixed_sync
from protocol.groups.migration import upgrade as migration_upgrade
from protocol.groups.modern import group as modern
from protocol.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.effects import Request


def join_consumer_group(ctx: Context, request: Request, now: int) -> None:
    """Let a classic member join a consumer group; an Empty group becomes a classic group."""
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    group_id = message.group_id
    if ctx.groups[group_id].has_members:
        mixed_join.join_group(ctx, request, now)
        return
    make_way = partial(modern.delete, ctx, group_id, now)
    classic_join.join_group(ctx, request, now, make_way)


UPGRADE: Final = MigrationEdge(
    source=ClassicGroup.type_name,
    target=ConsumerGroup.type_name,
    plan=migration_upgrade.plan,
    convert=migration_upgrade.convert,
)
DOWNGRADE: Final = MigrationEdge(
    source=ConsumerGroup.type_name,
    target=ClassicGroup.type_name,
    is_due=migration_downgrade.is_due,
    convert_without=migration_downgrade.convert,
    requests=MappingProxyType(
        {
            JoinGroupRequest.__api_key__: join_consumer_group,
            SyncGroupRequest.__api_key__: mixed_sync.sync_group,
            HeartbeatRequest.__api_key__: mixed_sync.heartbeat,
            LeaveGroupRequest.__api_key__: consumer_leave.leave_group,
        }
    ),
)
PART: Final = ShardPart(name="migration", timeouts=mixed_sync.TIMEOUTS)
"""The timers of classic members in consumer groups."""
