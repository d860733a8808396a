"""ListGroups and DeleteGroups for the groups of one shard, of any type."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.group_type import EMPTY, ShardPart, type_of
from protocol.groups.offsets import commit as offsets
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.effects import Request


def list_groups(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """List the groups in the requested states and of the requested types; no filter: all."""
    message = request.message
    assert isinstance(message, ListGroupsRequest)
    states = {state.strip().lower() for state in message.states_filter}
    types = {each.strip().lower() for each in message.types_filter}
    listed = []
    for group_id in reversed(ctx.groups):  # no client depends on the order; Kafka's tests do
        kind = type_of(ctx, group_id)
        if kind is None or (types and kind.name not in types):
            continue
        looks = kind.summary(ctx, group_id)
        if states and looks.state.lower() not in states:
            continue
        listed.append(
            ListedGroup(
                group_id=group_id,
                protocol_type=looks.protocol_type,
                group_state=looks.state,
                group_type=looks.group_type,
            )
        )
    response = ListGroupsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, groups=tuple(listed)
    )
    ctx.reply(request.ticket, response, None)


def delete_groups(ctx: Context, request: Request, now: int) -> None:
    """Delete each group that is Empty, and its offsets."""
    message = request.message
    assert isinstance(message, DeleteGroupsRequest)
    results = tuple(
        DeletableGroupResult(group_id=group_id, error_code=_delete(ctx, group_id, now))
        for group_id in message.groups_names
    )
    response = DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=results)
    ctx.reply(request.ticket, response, None)


def _delete(ctx: Context, group_id: str, now: int) -> ErrorCode:
    kind = type_of(ctx, group_id)
    if kind is None:
        return ErrorCode.group_id_not_found
    if kind.summary(ctx, group_id).state != EMPTY:
        return ErrorCode.non_empty_group
    offsets.delete_all(ctx, group_id)
    kind.delete(ctx, group_id, now)
    return ErrorCode.none


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {
        ListGroupsRequest.__api_key__: list_groups,
        DeleteGroupsRequest.__api_key__: delete_groups,
    }
)
PART: Final = ShardPart(name="describe", handlers=HANDLERS)
