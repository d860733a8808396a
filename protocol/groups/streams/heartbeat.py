"""StreamsGroupHeartbeat: a member joins, changes, steps towards its target, or stays alive.

Nearly all heartbeats are steady: they take the fast path at the top, and the listener may repeat
their answer. All others take the five steps of KIP-848, with the topology in between (KIP-1071).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.groups import settings as group_settings
from protocol.groups.fleet import expected
from protocol.groups.modern import group as modern
from protocol.groups.modern import steps as modern_steps
from protocol.groups.modern.hard_state import JOIN_EPOCH
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.modern.steps import HeartbeatInput
from protocol.groups.streams import leave as streams_leave
from protocol.groups.streams import members as streams_members
from protocol.groups.streams.answers import answer, missing_tags, statuses
from protocol.groups.streams.endpoints import report_endpoints
from protocol.groups.streams.group import StreamsGroup, streams_group_of
from protocol.groups.streams.internal_topics import create_missing
from protocol.groups.streams.prepare import configured_topology
from protocol.groups.streams.records import UNKNOWN_MEMBER
from protocol.groups.streams.requests import (
    OFFSETS_SINCE,
    UNCHANGED,
    check,
    check_tasks,
    owned_tasks,
    roles_of,
)
from protocol.groups.streams.task_offsets import check_offsets, keep_offsets
from protocol.groups.streams.topology import StreamsTopology, topology_record
from protocol.groups.streams.warming.warmups import (
    next_step,
    note_report,
    note_silence,
    note_version,
    rename,
)
from protocol.records import (
    Record,
    StreamsEndpoint,
    StreamsGroupTopologyKey,
    StreamsKeyValue,
)
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.streams_messages import StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.effects import ClientInfo, Request
    from protocol.groups.modern.runtime import ModernGroupRuntime, Session
    from protocol.groups.topic_numbers import Partition
    from protocol.records import StreamsGroupMemberMetadataValue, StreamsGroupTopologyValue

INITIAL_DELAY: Final = "streams.initial.rebalance.delay.ms"


def heartbeat(ctx: Context, request: Request, now: int) -> None:
    """Answer a member; try the fast path first."""
    message = request.message
    assert isinstance(message, StreamsGroupHeartbeatRequest)
    runtime = ctx.modern_runtime.get(message.group_id)
    if runtime is not None:
        session = runtime.sessions.get(message.member_id)
        if session is not None and _is_steady(runtime, session, request):
            session.session_deadline_ms = now + session.session_timeout_ms
            known = session.answer or _steady_answer(
                ctx, runtime, session, request.api_version, now
            )
            ctx.reply(request.ticket, known, message.group_id, modern.lease(session))
            return
    check(ctx, message, request.api_version)
    if message.member_epoch < JOIN_EPOCH:
        streams_leave.leave(ctx, request, now)
    else:
        _beat(ctx, request, message, now)


def _is_steady(
    runtime: ModernGroupRuntime,
    session: Session,
    request: Request,
) -> bool:
    """Whether the request has nothing new, and there is nothing to tell the member."""
    message, client = request.message, request.client
    assert isinstance(message, StreamsGroupHeartbeatRequest)
    member: Any = session.member
    group = runtime.group
    assignment = member.assignment
    if not (
        message.member_epoch == assignment.epoch == group.assignment_epoch == group.epoch
        and message.active_tasks is None
        and message.standby_tasks is None
        and message.warmup_tasks is None
        and assignment.state is MemberState.STABLE
        and not runtime.is_stale
        and message.topology is None
        and message.task_offsets is None
        and message.task_end_offsets is None
        and not message.shutdown_application
    ):
        return False
    if not isinstance(group, StreamsGroup):
        return False
    topology, own = group.topology, runtime.own
    known: StreamsGroupMemberMetadataValue = member.metadata
    if not (
        message.process_id is None
        and message.user_endpoint is None
        and message.client_tags is None
        and message.rebalance_timeout == UNCHANGED
        and (message.instance_id is None or message.instance_id == known.instance_id)
        and (message.rack_id is None or message.rack_id == known.rack_id)
        and client.client_id == known.client_id
        and client.host == known.client_host
    ):
        return False
    if request.api_version >= OFFSETS_SINCE and missing_tags(group, member):
        return False
    return (
        topology is not None
        and topology.epoch == group.validated_topology_epoch == known.topology_epoch
        and own.endpoint_epoch == message.endpoint_information_epoch
        and own.shutdown_member_id is None
        and not own.has_news
        and (own.plan is None or message.member_id not in own.plan.awaited)
        and (request.api_version < OFFSETS_SINCE) == (message.member_id in own.unable)
    )


def _steady_answer(
    ctx: Context, runtime: ModernGroupRuntime, session: Session, api_version: int, now: int
) -> Any:
    """Build an answer that may be repeated for long: it never asks the member back early."""
    modern.arm(ctx, runtime, session, now + session.session_timeout_ms)
    interval_ms = modern_steps.heartbeat_interval_ms(ctx, runtime)
    session.answer = steady = answer(
        ctx, runtime, session.member, interval_ms, api_version, with_tasks=False
    )
    return steady


def _beat(ctx: Context, request: Request, message: StreamsGroupHeartbeatRequest, now: int) -> None:
    """Take the five steps."""
    group_id, member_id = message.group_id, message.member_id
    slot = streams_members.find_slot(ctx, message, now)
    known = UNKNOWN_MEMBER if slot.member is None else slot.member.metadata
    is_late = slot.member is not None and message.member_epoch != slot.member.assignment.epoch
    metadata = _said(known, message, request.client)
    new_topology = _new_topology(slot.group, message)
    _check_topology(ctx, slot.group, new_topology, message)

    # From here on the request changes the group.
    streams_members.fill_slot(ctx, group_id, slot, member_id, now)
    if slot.replaced is not None:
        rename(ctx.modern_runtime[group_id], slot.replaced.member_id, member_id)
    if new_topology is not None:
        ctx.emit(Record(StreamsGroupTopologyKey(group_id), new_topology))
    runtime = modern.find(ctx, group_id, now)
    assert runtime is not None
    group = streams_group_of(runtime)
    note_version(runtime, member_id, reports=request.api_version >= OFFSETS_SINCE)
    if not group.members:
        _begin_life(ctx, runtime, now)
    heartbeat_input = HeartbeatInput(
        group_id,
        member_id,
        metadata,
        lambda: owned_tasks(group, message),
        request.client.software,
    )
    runtime, member, before = modern_steps.process_heartbeat(
        ctx, StreamsGroup, heartbeat_input, now
    )
    assert member is group.members[member_id]
    keep_offsets(runtime, group.configured, message)
    note_report(ctx, runtime, message)
    note_silence(ctx, runtime, member_id, now)
    next_step(ctx, runtime, now)
    interval_ms = modern_steps.renew_session(ctx, runtime, member, now)
    if message.shutdown_application and runtime.own.shutdown_member_id is None:
        runtime.own.shutdown_member_id = member_id
        runtime.end_leases()
    assigned = member.assignment.assigned
    with_tasks = (
        message.member_epoch == JOIN_EPOCH
        or before.assigned != assigned
        or _is_behind(owned_tasks(group, message), assigned, is_late=is_late)
    )
    endpoints = report_endpoints(
        ctx, runtime, group.members[member_id], message, has_changed=with_tasks
    )
    create_missing(ctx, runtime, now)
    response = answer(ctx, runtime, member, interval_ms, request.api_version, with_tasks=with_tasks)
    told = statuses(runtime, group.members[member_id], request.api_version, now)
    ctx.reply(
        request.ticket,
        replace(response, status=told, partitions_by_user_endpoint=endpoints),
        group_id,
    )


def _is_behind(
    owned: set[Partition] | None, assigned: Mapping[Partition, int], *, is_late: bool
) -> bool:
    """Whether a member that reports its tasks does not know its assignment: an answer was lost.

    It lacks tasks, or has some that it must give up. A member at its epoch that reports none is
    told nothing, as Kafka's tests expect.
    """
    return owned is not None and bool(owned or is_late) and assigned.keys() != owned


def _begin_life(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Let more members join a group without members before its first assignment."""
    runtime.own.shutdown_member_id = None
    if expected.ids(ctx, runtime.group_id):
        return  # the first assignment waits for these
    delay_ms = group_settings.integer(ctx, runtime.group_id, INITIAL_DELAY)
    if delay_ms and runtime.hold_ms <= now:
        runtime.hold_ms = now + delay_ms


def _new_topology(
    group: StreamsGroup | None, message: StreamsGroupHeartbeatRequest
) -> StreamsGroupTopologyValue | None:
    """Return the record of the group's first topology; refuse another one."""
    known = None if group is None else group.topology
    if message.topology is None:
        if known is None:
            sentence = "The topology is null and the group topology is also null."
            raise KafkaError(ErrorCode.unknown_server_error, sentence)
        return None
    if known is not None and known.epoch > message.topology.epoch:
        return None  # the member is told that its topology is stale
    value = topology_record(message.topology)
    if known is None:
        if value.epoch < 0:
            raise KafkaError(ErrorCode.invalid_request, "Topology epoch must be non-negative.")
        return value
    if (known.epoch, known.subtopologies) != (value.epoch, StreamsTopology.of(value).subtopologies):
        raise KafkaError(ErrorCode.invalid_request, "Topology updates are not supported yet.")
    return None


def _check_topology(
    ctx: Context,
    group: StreamsGroup | None,
    new: StreamsGroupTopologyValue | None,
    message: StreamsGroupHeartbeatRequest,
) -> None:
    """Refuse a topology that no topics can make run, and tasks that it does not have."""
    known = None if group is None else group.topology
    topology = known if new is None else StreamsTopology.of(new)
    assert topology is not None
    configured = configured_topology(ctx, group, topology)
    if configured.error is not None:
        raise configured.error
    if any(tasks for _, tasks in roles_of(message)):
        check_tasks(configured, message)
    check_offsets(message)


def _said(
    known: StreamsGroupMemberMetadataValue,
    message: StreamsGroupHeartbeatRequest,
    client: ClientInfo,
) -> StreamsGroupMemberMetadataValue:
    """Return the member's metadata after this request; the same object if nothing is new."""
    timeout, tags, endpoint = message.rebalance_timeout, message.client_tags, message.user_endpoint
    said = replace(
        known,
        instance_id=known.instance_id if message.instance_id is None else message.instance_id,
        rack_id=known.rack_id if message.rack_id is None else message.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        rebalance_timeout_ms=(
            known.rebalance_timeout_ms
            if timeout == UNCHANGED
            else timeout // timedelta(milliseconds=1)
        ),
        topology_epoch=(
            known.topology_epoch if message.topology is None else message.topology.epoch
        ),
        process_id=known.process_id if message.process_id is None else message.process_id,
        user_endpoint=(
            known.user_endpoint
            if endpoint is None
            else StreamsEndpoint(host=endpoint.host, port=endpoint.port)
        ),
        client_tags=(
            known.client_tags
            if tags is None
            else tuple(
                StreamsKeyValue(key=key, value=value)
                for key, value in sorted({each.key: each.value for each in tags}.items())
            )
        ),
    )
    return known if said == known else said


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {StreamsGroupHeartbeatRequest.__api_key__: heartbeat}
)
