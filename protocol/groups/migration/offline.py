"""Offline conversion between classic and streams groups (KIP-1071): only without members.

An Empty group of one type makes way for the first member of the other. Committed offsets stay.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.classic import join as classic_join
from protocol.groups.classic import lifecycle as classic_lifecycle
from protocol.groups.classic.group import ClassicGroup
from protocol.groups.group_type import MigrationEdge
from protocol.groups.streams import describe as streams_describe
from protocol.groups.streams.group import StreamsGroup
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import JoinGroupRequest

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.hard_group import HardGroup


def plan(ctx: Context, group_id: str, _now: int) -> None:
    """Let a classic group without members be replaced; refuse if it has some."""
    if classic_lifecycle.has_members(ctx, group_id):
        raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} is not a streams group.")


def convert(ctx: Context, group_id: str, _planned: HardGroup | None, now: int) -> None:
    """Remove the classic group; the streams member then creates its own."""
    classic_lifecycle.release_group_id(ctx, group_id, now)


def join_streams_group(ctx: Context, request: Request, now: int) -> None:
    """Let a classic member join in place of an Empty streams group; refuse it otherwise."""
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    group_id = message.group_id
    make_way = None
    if not ctx.groups[group_id].has_members:
        make_way = partial(streams_describe.delete, ctx, group_id, now)
    classic_join.join_group(ctx, request, now, make_way)


TO_STREAMS: Final = MigrationEdge(
    source=ClassicGroup.type_name, target=StreamsGroup.type_name, plan=plan, convert=convert
)
TO_CLASSIC: Final = MigrationEdge(
    source=StreamsGroup.type_name,
    target=ClassicGroup.type_name,
    requests=MappingProxyType({JoinGroupRequest.__api_key__: join_streams_group}),
)
