"""Responses for classic groups, as values: this module decides only their form."""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.groups.classic.group import ClassicGroupMember, ClassicGroupRuntime
    from protocol.wire.messages import MemberIdentity

NO_THROTTLE: Final = timedelta(0)

HEARTBEATS: Final[Mapping[ErrorCode, HeartbeatResponse]] = MappingProxyType(
    {
        code: HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=code)
        for code in (ErrorCode.none, ErrorCode.rebalance_in_progress)
    }
)


def join_refused(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """Answer JoinGroup with an error; for MEMBER_ID_REQUIRED, ``member_id`` is the id to use."""
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None,
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=(),
    )


def joined(
    group: ClassicGroupRuntime,
    member: ClassicGroupMember,
    *,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """Answer JoinGroup with the generation; a member that is told it leads gets the active members.

    ``leader`` overrides the leader that is named. Clients older than JoinGroup 9 do not know
    ``skip_assignment``; naming another member's id keeps them from computing an assignment.
    """
    named = group.leader_id if leader is None else leader
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=named or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=_roster(group) if named == member.member_id else (),
    )


def _roster(group: ClassicGroupRuntime) -> tuple[JoinGroupResponseMember, ...]:
    protocol = group.protocol_name
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.subscription(protocol),
        )
        for member in group.members.values()
        if member.member_id not in group.spares
    )


def synced(group: ClassicGroupRuntime, member: ClassicGroupMember) -> SyncGroupResponse:
    """Answer SyncGroup with the member's assignment."""
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    """Answer SyncGroup with an error."""
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        protocol_type=None,
        protocol_name=None,
        assignment=b"",
    )


def left(members: tuple[MemberResponse, ...]) -> LeaveGroupResponse:
    """Answer LeaveGroup; errors are per member."""
    return LeaveGroupResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, members=members)


def left_member(identity: MemberIdentity, code: ErrorCode = ErrorCode.none) -> MemberResponse:
    """Return the result for one member of a LeaveGroup, under the ids that the request used."""
    return MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=code,
    )
