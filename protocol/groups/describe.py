"""DescribeGroups, ListGroups and DeleteGroups for the groups of one shard."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups import any_group
from protocol.groups.classic import rebuild
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.offsets import commit as offsets
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.classic.group import Group, Member
    from protocol.groups.context import Context
    from protocol.groups.effects import Request

NOT_ASKED: Final = -(2**31)
"""``authorized_operations`` when the client did not ask."""

GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""What may be done to a group where nothing is forbidden: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS
and ALTER_CONFIGS, each the bit of its number in Kafka's AclOperation."""


def describe_groups(ctx: Context, request: Request, now: int) -> None:
    """Describe each group; what the members told each other is shown only while it is settled."""
    message = request.message
    assert isinstance(message, DescribeGroupsRequest)
    operations = GROUP_OPERATIONS if message.include_authorized_operations else NOT_ASKED
    described = []
    for group_id in dict.fromkeys(message.groups):  # its members may be thousands
        group = rebuild.find(ctx, group_id, now)
        if group is None:
            described.append(_absent(ctx, group_id, request.api_version, operations))
        else:
            described.append(_described(group, operations))
    response = DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=tuple(described))
    ctx.reply(request.ticket, response, None)


def _absent(ctx: Context, group_id: str, api_version: int, operations: int) -> DescribedGroup:
    """Describe a group that does not exist: Dead, which is an error only since version 6.

    So is a group of another type to this API.
    """
    is_error = api_version >= 6
    what = "is not a classic group" if group_id in ctx.groups else "not found"
    return DescribedGroup(
        error_code=ErrorCode.group_id_not_found if is_error else ErrorCode.none,
        error_message=f"Group {group_id} {what}." if is_error else None,
        group_id=group_id,
        group_state=ClassicGroupState.DEAD,
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=NOT_ASKED if is_error else operations,
    )


def _described(group: Group, operations: int) -> DescribedGroup:
    state = group.state
    protocol = group.protocol_name if state is ClassicGroupState.STABLE else None
    return DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group.group_id,
        group_state=state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=tuple(_described_member(member, protocol) for member in group.members.values()),
        authorized_operations=operations,
    )


def _described_member(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.subscription(protocol),
        member_assignment=member.assignment,
    )


def list_groups(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """List the groups in the states and of the types asked for; no filter lets all through."""
    message = request.message
    assert isinstance(message, ListGroupsRequest)
    states = {state.strip().lower() for state in message.states_filter}
    types = {each.strip().lower() for each in message.types_filter}
    listed = []
    for group_id in reversed(ctx.groups):  # no client depends on the order; Kafka's tests do
        looks = any_group.shown(ctx, group_id)
        if looks is None or (types and looks.group_type not in types):
            continue
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
    try:
        any_group.check_delete(ctx, group_id)
    except KafkaError as error:
        return error.code
    offsets.delete_all(ctx, group_id)
    any_group.delete(ctx, group_id, now)
    return ErrorCode.none


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {
        DescribeGroupsRequest.__api_key__: describe_groups,
        ListGroupsRequest.__api_key__: list_groups,
        DeleteGroupsRequest.__api_key__: delete_groups,
    }
)
