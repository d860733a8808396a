"""DescribeGroups for classic groups; it treats groups of another type as nonexistent."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.classic import rebuild
from protocol.groups.classic.states import ClassicGroupState
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol.wire.operations import GROUP_OPERATIONS, NOT_ASKED, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.classic.group import ClassicGroupMember, ClassicGroupRuntime
    from protocol.groups.context import Context
    from protocol.groups.effects import Request


def describe_groups(ctx: Context, request: Request, now: int) -> None:
    """Describe each group; include the members' subscriptions only while the group is Stable."""
    message = request.message
    assert isinstance(message, DescribeGroupsRequest)
    operations = told(GROUP_OPERATIONS, is_asked=message.include_authorized_operations)
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
    """Describe a group that does not exist: Dead, with an error code only since version 6.

    To this API a group of another type does not exist either.
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


def _described(group: ClassicGroupRuntime, operations: int) -> DescribedGroup:
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


def _described_member(member: ClassicGroupMember, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.subscription(protocol),
        member_assignment=member.assignment,
    )


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {DescribeGroupsRequest.__api_key__: describe_groups}
)
