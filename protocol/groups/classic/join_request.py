"""A JoinGroup request as all steps of the join see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from protocol.groups.classic.group import CONSUMER, protocol_list_of
from protocol.groups.limits import MEMBER_BYTES_MAX
from protocol.wire.embedded import decode_subscription
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from protocol.groups.classic.group import ClassicGroupMember, ClassicGroupRuntime
    from protocol.groups.classic.protocol_lists import ProtocolList
    from protocol.groups.effects import Request
    from protocol.wire.messages import JoinGroupRequest

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(slots=True)
class Join:
    """The request, its timeouts in milliseconds, and its arrival time."""

    request: Request
    message: JoinGroupRequest
    protocol_list: ProtocolList
    session_timeout_ms: int
    rebalance_timeout_ms: int
    now: int


def read(request: Request, message: JoinGroupRequest, now: int) -> Join:
    """Read the request into a :class:`Join`."""
    if not message.group_id:
        raise KafkaError(ErrorCode.invalid_group_id)
    size = sum([len(each.metadata) + len(each.name) for each in message.protocols])
    if size > MEMBER_BYTES_MAX:
        # Its group's record would be too large to write: the member gets this error for that.
        raise KafkaError(ErrorCode.unknown_server_error)
    session_timeout_ms = message.session_timeout // _MILLISECOND
    rebalance_timeout_ms = message.rebalance_timeout // _MILLISECOND
    return Join(
        request=request,
        message=message,
        protocol_list=protocol_list_of(message.protocols),
        session_timeout_ms=session_timeout_ms,
        # JoinGroup 0 has no rebalance timeout: the session timeout serves for both.
        rebalance_timeout_ms=rebalance_timeout_ms if request.api_version else session_timeout_ms,
        now=now,
    )


def has_other_topics(group: ClassicGroupRuntime, before: bytes | None, after: bytes | None) -> bool:
    """Whether two subscriptions have other topics, as far as both can be decoded.

    The rest of the metadata differs with each restart: owned partitions and assignor user data.
    """
    if group.protocol_type != CONSUMER or before is None or after is None or before == after:
        return False
    old, new = decode_subscription(before), decode_subscription(after)
    return old is not None and new is not None and {*old.topics} != {*new.topics}


def update(group: ClassicGroupRuntime, member: ClassicGroupMember, join: Join) -> None:
    """Update a member from its new request."""
    group.set_protocols(member, join.message.protocols, join.protocol_list)
    member.client_software = join.request.client.software
    member.session_timeout_ms = join.session_timeout_ms
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
