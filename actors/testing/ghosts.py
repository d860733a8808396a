"""Members that exist for a moment only, over the wire: to make a rebalance, or to fence another.

They send what any client may send, so what follows is what clients cause in production.
"""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.cli.client import AdminClient, ClientError, named
from actors.errors import FailureError
from actors.testing.faults import OWN_CLIENT_ID
from actors.testing.streams_ghosts import streams_ghost
from actors.waiting import poll
from protocol.members.classic import ClassicMember, MemberConfig
from protocol.members.consumer import ConsumerMember, ConsumerMemberConfig
from protocol.members.requests import CLASSIC_MESSAGES, HeartbeatFields
from protocol.members.share import ShareMember, ShareMemberConfig
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import DescribeGroupsRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.cli.client import Address
    from actors.cli.descriptions import GroupDescription, MemberDescription
    from protocol.groups.streams.topology import StreamsTopology
    from protocol.members.streams import StreamsMember

FORCED: Final = "a test forces a rebalance"
FENCED: Final = "a test takes the place of this instance"
SESSION_TIMEOUT_MS: Final = 10_000
"""How long a ghost keeps the place that it took: it sends no heartbeat."""

ANSWER_S: Final = 15.0
LEAVES: Final = -1
LEAVES_FOR_NOW: Final = -2
JOINING: Final = HeartbeatFields(joins=True, everything=True, topics=(), owned=True)
"""A ghost subscribes to nothing, so that it gets no partition of others; in a streams group it may
get tasks, until it leaves."""

JOINING_SHARE: Final = replace(JOINING, topics=("rollcall-test-no-such-topic",))
"""A member of a share group must name a topic."""


def force_rebalance(
    bootstrap: Sequence[Address], group: GroupDescription, topology: StreamsTopology | None
) -> None:
    """Let a ghost join the group and leave it at once; ``topology`` is a streams group's.

    Raises FailureError.
    """
    with _client(bootstrap) as client:
        if group.group_type == "classic":
            _force_classic(bootstrap, client, group)
            return
        ghost = _modern_ghost(group, topology)
        joining = JOINING_SHARE if group.group_type == "share" else JOINING
        _tell(client, group.group_id, ghost.requests.heartbeat(ghost, joining))
        _tell(client, group.group_id, ghost.requests.leave(ghost, LEAVES))


def fence(
    bootstrap: Sequence[Address],
    group: GroupDescription,
    member: MemberDescription,
    topology: StreamsTopology | None,
) -> str:
    """Take the place of a static member, as a second process with its instance id does.

    ``topology`` is a streams group's. Return the member id that has the place now. Raises
    FailureError.
    """
    with _client(bootstrap) as client:
        if member.epoch is None:
            return _fence_classic(client, group, member)
        old, ghost = (_modern_ghost(group, topology, member.instance_id) for _ in range(2))
        old.member_id = member.member_id
        _tell(client, group.group_id, old.requests.leave(old, LEAVES_FOR_NOW))
        _tell(client, group.group_id, ghost.requests.heartbeat(ghost, JOINING))
        return ghost.member_id


def _force_classic(
    bootstrap: Sequence[Address], client: AdminClient, group: GroupDescription
) -> None:
    ghost = _classic_ghost(group.group_id, None)
    joining = _like(client, group, ghost, FORCED)
    answer = _ask(client, group.group_id, joining)
    if answer.error_code is not ErrorCode.member_id_required:
        raise FailureError(f"The ghost cannot join: {named(answer.error_code)}.")
    ghost.member_id = answer.member_id

    def join() -> None:
        """Wait for the end of the join phase, which the ghost does not see."""
        with suppress(ClientError), _client(bootstrap) as other:
            _ask(other, group.group_id, replace(joining, member_id=ghost.member_id))

    threading.Thread(target=join, name="ghost", daemon=True).start()

    def has_joined() -> bool:
        members = _described(client, group.group_id).members
        return ghost.member_id in [each.member_id for each in members]

    if not poll(has_joined, ANSWER_S, every_s=0.01):
        raise FailureError("The ghost does not join.")
    _ask(client, group.group_id, CLASSIC_MESSAGES.leave(ghost, FORCED))


def _fence_classic(client: AdminClient, group: GroupDescription, member: MemberDescription) -> str:
    ghost = _classic_ghost(group.group_id, member.instance_id)
    answer = _ask(client, group.group_id, _like(client, group, ghost, FENCED))
    if answer.error_code is not ErrorCode.none:
        raise FailureError(f"The instance cannot be fenced: {named(answer.error_code)}.")
    return str(answer.member_id)


def _classic_ghost(group_id: str, instance_id: str | None) -> ClassicMember:
    config = MemberConfig(
        group_id=group_id,
        topics=(),
        instance_id=instance_id,
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    return ClassicMember(config, random.Random(), {})


def _modern_ghost(
    group: GroupDescription,
    topology: StreamsTopology | None,
    instance_id: str | None = None,
) -> ConsumerMember | ShareMember | StreamsMember:
    rng, group_id = random.Random(), group.group_id
    match group.group_type:
        case "consumer":
            consumer = ConsumerMemberConfig(group_id=group_id, instance_id=instance_id)
            return ConsumerMember(consumer, rng, {})
        case "streams":
            if topology is None:
                raise FailureError(f"Group {group_id} has no coordinator now.")
            return streams_ghost(group_id, topology, instance_id)
        case _:
            return ShareMember(ShareMemberConfig(group_id=group_id, topics=()), rng, {})


def _like(client: AdminClient, group: GroupDescription, ghost: ClassicMember, why: str) -> Any:
    """Return a JoinGroup with the protocol that the group uses and the metadata of a member.

    A static ghost has the metadata of its predecessor: otherwise the group would rebalance.
    """
    described = _described(client, group.group_id)
    instance_id = ghost.config.instance_id
    alike = [one for one in described.members if one.group_instance_id == instance_id]
    if not described.protocol_data or not described.members:
        raise FailureError(f"Group {group.group_id} is in a rebalance: await its assignment first.")
    message = CLASSIC_MESSAGES.join(ghost, why)
    (protocol,) = message.protocols
    metadata = (alike or described.members)[0].member_metadata
    protocol = replace(protocol, name=described.protocol_data, metadata=metadata)
    return replace(message, protocol_type=described.protocol_type, protocols=(protocol,))


def _described(client: AdminClient, group_id: str) -> Any:
    request = DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=False)
    answer = client.ask_coordinator(
        group_id, request, lambda answer: [each.error_code for each in answer.groups]
    )
    return answer.groups[0]


def _tell(client: AdminClient, group_id: str, message: Any) -> None:
    answer = _ask(client, group_id, message)
    if answer.error_code is not ErrorCode.none:
        raise FailureError(f"The ghost is refused: {named(answer.error_code)}.")


def _ask(client: AdminClient, group_id: str, message: Any) -> Any:
    return client.ask_coordinator(group_id, message, lambda answer: [answer.error_code])


def _client(bootstrap: Sequence[Address]) -> AdminClient:
    return AdminClient(bootstrap, ANSWER_S, OWN_CLIENT_ID)
