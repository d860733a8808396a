"""JoinGroup: which members may join, under which member id, and whether that rebalances the group.

The member id and the instance id of the request make six cases (KIP-345, KIP-394):

=========== =========== ========================================================================
member id   instance id answer
=========== =========== ========================================================================
known       none        the member rejoins
not known   none        UNKNOWN_MEMBER_ID
empty       none        MEMBER_ID_REQUIRED and an id to join with (before JoinGroup 4: joins)
known       some        FENCED_INSTANCE_ID if another id holds the instance, else it rejoins
not known   some        UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if the instance has a member
empty       some        takes the instance over (``classic_static``), or joins as a new member
=========== =========== ========================================================================
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.classic import answers, membership, rebalance, rebuild
from protocol.groups.classic import static as classic_static
from protocol.groups.classic.group import ClassicGroupMember
from protocol.groups.classic.join_request import has_other_topics, read, update
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.facts import MemberEvent, MemberEventKind, RebalanceTrigger
from protocol.groups.timers import TimerKind
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import JoinGroupRequest
from protocol.wire.readers import TEXT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.classic.group import ClassicGroupRuntime
    from protocol.groups.classic.join_request import Join
    from protocol.groups.context import Context
    from protocol.groups.effects import Request

_UUID_4: Final = 0x4000_8000_0000_0000_0000
_UUID_RANDOM: Final = 2**128 - 1 - 0xF000_C000_0000_0000_0000

_UUID_LENGTH: Final = 37
"""Bytes of a member id's UUID and the dash before it."""

NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a member's first JoinGroup may be parked: the client sends nothing meanwhile."""


def join_group(
    ctx: Context, request: Request, now: int, make_way: Callable[[], None] | None = None
) -> None:
    """Answer at once, or park the request until the join phase ends.

    ``make_way`` removes an Empty group of another type that has the id. It is called once the
    request can no longer be refused.
    """
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    try:
        _join(ctx, read(request, message, now), make_way)
    except KafkaError as error:
        if ctx.result.records:
            raise  # state has changed already: the shard's driver has to repair it
        refusal = answers.join_refused(error.code, message.member_id)
        ctx.reply(request.ticket, refusal, message.group_id)


def _join(ctx: Context, join: Join, make_way: Callable[[], None] | None) -> None:
    message, now = join.message, join.now
    check_session_timeout(ctx, join)
    group = rebuild.find(ctx, message.group_id, now)
    if group is None:
        if make_way is None and message.group_id in ctx.groups:
            raise KafkaError(ErrorCode.inconsistent_group_protocol)  # a group of another type
        if message.member_id:
            raise KafkaError(ErrorCode.unknown_member_id)
        if not (message.protocol_type and join.protocol_list):
            raise KafkaError(ErrorCode.inconsistent_group_protocol)
        if make_way is not None:
            make_way()
        group = rebuild.find_or_create(ctx, message.group_id, now)
    if not _has_room(ctx, group, message):
        _refuse_new_member(ctx, group, join)
        return
    if not group.accepts_protocols(message.protocol_type, join.protocol_list):
        raise KafkaError(ErrorCode.inconsistent_group_protocol)
    if message.member_id:
        _join_known(ctx, group, join)
    else:
        _join_new(ctx, group, join)


def check_session_timeout(ctx: Context, join: Join) -> None:
    """Refuse a session timeout that the broker does not allow."""
    shortest = ctx.configs.integer("group.min.session.timeout.ms")
    longest = ctx.configs.integer("group.max.session.timeout.ms")
    if not shortest <= join.session_timeout_ms <= longest:
        raise KafkaError(ErrorCode.invalid_session_timeout)


def _has_room(ctx: Context, group: ClassicGroupRuntime, message: JoinGroupRequest) -> bool:
    """Whether ``group.max.size`` admits this member.

    During the join phase only members that have joined again count, so that a group that is now too
    large turns away the last ones. Outside of it, all members count.
    """
    size_max = ctx.configs.integer("group.max.size")
    state = group.state
    if state is ClassicGroupState.EMPTY:
        return True
    member_id = message.member_id
    if not member_id and message.group_instance_id is not None:
        member_id = group.static_members.get(message.group_instance_id, "")
    member = group.members.get(member_id)
    if state is ClassicGroupState.PREPARING_REBALANCE:
        is_waiting = member is not None and member.join_ticket is not None
        return is_waiting or group.awaiting_join < size_max
    return member is not None or len(group.members) < size_max


def _refuse_new_member(ctx: Context, group: ClassicGroupRuntime, join: Join) -> None:
    member_id = join.message.member_id
    member = group.members.get(member_id)
    if member is not None:
        membership.drop(ctx, group, member)
        event = membership.event(ctx, group, member, MemberEventKind.REFUSED, join.now)
        group.event_log.note(ctx, event)
    elif member_id in group.pending:
        membership.drop_pending(ctx, group, member_id)
    refusal = answers.join_refused(ErrorCode.group_max_size_reached)
    ctx.reply(join.request.ticket, refusal, group.group_id)


def _join_new(ctx: Context, group: ClassicGroupRuntime, join: Join) -> None:
    """Assign a member id to a new member; a static member takes its place with it."""
    instance_id = join.message.group_instance_id
    client_id = join.request.client.client_id
    member_id = _new_member_id(ctx, client_id if instance_id is None else instance_id)
    if instance_id is not None and instance_id in group.static_members:
        classic_static.take_over(ctx, group, join, member_id)
    elif instance_id is None and join.request.api_version >= 4:
        _require_member_id(ctx, group, join, member_id)
    else:
        _add(ctx, group, join, member_id)


def _new_member_id(ctx: Context, name: str) -> str:
    """Draw a member id as Kafka does: the client or instance id, then a random (version 4) UUID.

    A very long name is cut: the whole id must fit into a string of Kafka's formats.
    """
    if len(name) * 4 > TEXT_BYTES_MAX - _UUID_LENGTH:
        name = name.encode()[: TEXT_BYTES_MAX - _UUID_LENGTH].decode(errors="ignore")
    bits = (ctx.rng.getrandbits(128) & _UUID_RANDOM) | _UUID_4
    digits = f"{bits:032x}"
    return f"{name}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _require_member_id(
    ctx: Context, group: ClassicGroupRuntime, join: Join, member_id: str
) -> None:
    """Make a dynamic member prove that it got its id by returning with it (KIP-394).

    A client that gives up and asks again then leaves no members behind that no client uses.
    """
    group.pending[member_id] = None
    deadline_ms = join.now + join.session_timeout_ms
    ctx.timers.set(TimerKind.SESSION, group.group_id, member_id, deadline_ms)
    refusal = answers.join_refused(ErrorCode.member_id_required, member_id)
    ctx.reply(join.request.ticket, refusal, group.group_id)


def _add(ctx: Context, group: ClassicGroupRuntime, join: Join, member_id: str) -> None:
    """Add a new member; its request is parked until the join phase ends."""
    message, now = join.message, join.now
    member = ClassicGroupMember(
        member_id=member_id,
        group_instance_id=message.group_instance_id,
        client_id=join.request.client.client_id,
        client_host=join.request.client.host,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        protocols=message.protocols,
        protocol_list=join.protocol_list,
        is_new=True,
        client_software=join.request.client.software,
    )
    if group.rebalance is not None:
        group.rebalance.has_new_member = True
    group.add(member, message.protocol_type)
    group.park_join(member, join.request.ticket)
    membership.arm(ctx, group, member, now + NEW_MEMBER_TIMEOUT_MS)
    event = _event(member, join, MemberEventKind.JOINED)
    group.event_log.note(ctx, event)
    rebalance.prepare(ctx, group, RebalanceTrigger.MEMBER_JOINED, event, now)


def _event(member: ClassicGroupMember, join: Join, kind: MemberEventKind) -> MemberEvent:
    return MemberEvent(
        group_id=join.message.group_id,
        time_ms=join.now,
        kind=kind,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        reason=membership.cut(join.message.reason),
        client_software=member.client_software,
    )


def _join_known(ctx: Context, group: ClassicGroupRuntime, join: Join) -> None:
    """Let a member rejoin: park it if the group rebalances or must, otherwise answer at once."""
    message, now = join.message, join.now
    ticket = join.request.ticket
    if message.member_id in group.pending:
        if message.group_instance_id is not None:
            # The id was given to a dynamic member. Kafka does not expect this either.
            ctx.reply(ticket, answers.join_refused(ErrorCode.unknown_server_error), group.group_id)
            return
        _add(ctx, group, join, message.member_id)
        return
    ids = (message.member_id, message.group_instance_id)
    member = membership.find(ctx, group, ids, now)
    event = _event(member, join, MemberEventKind.REJOINED)
    group.event_log.note(ctx, event)
    if _must_rebalance(group, member, join):
        trigger = _trigger(group, member, join)
        update(group, member, join)
        membership.park_join(ctx, group, member, ticket)
        rebalance.prepare(ctx, group, trigger, event, now)
    else:
        ctx.reply(ticket, answers.joined(group, member), group.group_id)


def _must_rebalance(group: ClassicGroupRuntime, member: ClassicGroupMember, join: Join) -> bool:
    """Whether a known member's JoinGroup is more than a retry.

    With unchanged protocols the member gets the generation again. The leader of a Stable group
    requests a rebalance by joining: it saw a change that its protocols do not show, such as new
    topics.
    """
    state = group.state
    if state is ClassicGroupState.PREPARING_REBALANCE:
        return True
    if state is ClassicGroupState.STABLE and group.leader_id == member.member_id:
        return True
    return member.protocols != join.message.protocols


def _trigger(
    group: ClassicGroupRuntime, member: ClassicGroupMember, join: Join
) -> RebalanceTrigger:
    """Say what a known member's JoinGroup changes, for operators."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return RebalanceTrigger.MEMBER_REJOINED  # it answers the call, and triggers nothing
    before = {offered.name: offered.metadata for offered in member.protocols}
    after = {offered.name: offered.metadata for offered in join.message.protocols}
    name = group.protocol_name or ""
    if has_other_topics(group, before.get(name), after.get(name)):
        return RebalanceTrigger.MEMBER_SUBSCRIBED
    if group.leader_id == member.member_id:
        return RebalanceTrigger.LEADER_REJOINED
    return RebalanceTrigger.MEMBER_REJOINED


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {JoinGroupRequest.__api_key__: join_group}
)
