"""The response to a StreamsGroupHeartbeat: tasks by role, and statuses."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from protocol.groups import settings as group_settings
from protocol.groups.modern.form import ROLE_SHIFT, TaskRole
from protocol.groups.streams.group import streams_group_of
from protocol.groups.streams.internal_topics import creation_errors
from protocol.groups.streams.requests import OFFSETS_SINCE
from protocol.groups.streams.status import (
    ASSIGNMENT_DELAYED,
    MISSING_CLIENT_TAGS,
    MISSING_INTERNAL_TOPICS,
    SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY,
)
from protocol.groups.streams.task_numbers import SUBTOPOLOGY_MASK, SubtopologyNumbers
from protocol.groups.streams.warming.warmups import OFFSET_INTERVAL, acceptable_lag
from protocol.groups.topic_numbers import TOPIC_SHIFT, by_topic
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import NO_THROTTLE
from protocol.wire.streams_messages import (
    AssignedTaskIds,
    StreamsGroupHeartbeatResponse,
    StreamsStatus,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.context import Context
    from protocol.groups.modern.hard_state import ModernGroupMember
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.streams.group import StreamsGroup, StreamsGroupMember
    from protocol.groups.topic_numbers import Partition


def answer(  # noqa: PLR0913 - all that answers differ in
    ctx: Context,
    runtime: ModernGroupRuntime,
    member: ModernGroupMember,
    interval_ms: int,
    api_version: int,
    *,
    with_tasks: bool,
) -> StreamsGroupHeartbeatResponse:
    """Build a response without statuses and endpoints; tasks only if they may have changed.

    No description of the topology is asked for, since none is stored.
    """
    lag, offsets_ms = 0, 0  # as Kafka 4.3 answers version 0
    if api_version >= OFFSETS_SINCE:
        lag = acceptable_lag(ctx, runtime)
        offsets_ms = group_settings.integer(ctx, runtime.group_id, OFFSET_INTERVAL)
    active = standby = warmup = None
    if with_tasks:
        numbers = streams_group_of(runtime).numbers
        tasks = tasks_by_role(member.assignment.assigned, numbers)
        active, standby, warmup = (
            tuple(AssignedTaskIds(subtopology_id=name, partitions=tuple(n)) for name, n in each)
            for each in tasks
        )
    return StreamsGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        member_id=member.member_id,
        member_epoch=member.assignment.epoch,
        heartbeat_interval=timedelta(milliseconds=interval_ms),
        acceptable_recovery_lag=lag,
        task_offset_interval=timedelta(milliseconds=offsets_ms),
        status=(),
        active_tasks=active,
        standby_tasks=standby,
        warmup_tasks=warmup,
        endpoint_information_epoch=runtime.own.endpoint_epoch,
        partitions_by_user_endpoint=None,
    )


def tasks_by_role(
    owned: Iterable[Partition], numbers: SubtopologyNumbers
) -> tuple[list[tuple[str, list[int]]], ...]:
    """Return the partitions of each subtopology, by role."""
    found: tuple[list[tuple[str, list[int]]], ...] = tuple([] for _ in TaskRole)
    for unit, indexes in by_topic(owned):
        role = unit >> (ROLE_SHIFT - TOPIC_SHIFT)
        found[role].append((numbers.ids[unit & SUBTOPOLOGY_MASK], indexes))
    return tuple(sorted(each) for each in found)


def missing_tags(group: StreamsGroup, member: StreamsGroupMember) -> list[str]:
    """Return the tags by which standby tasks are placed and which the member does not have."""
    required = group.settings.rack_tags
    if not required:
        return []
    known = {each.key for each in member.metadata.client_tags}
    return [name for name in required if name not in known]


def statuses(
    runtime: ModernGroupRuntime, member: StreamsGroupMember, api_version: int, now: int
) -> tuple[StreamsStatus, ...]:
    """Return what the member must be told about the group, as far as its version knows it."""
    group, told = streams_group_of(runtime), []
    topology, member_epoch = group.topology, member.metadata.topology_epoch
    if topology is not None and member_epoch < topology.epoch:
        detail = (
            f"The member's topology epoch {member_epoch} is behind the group's topology epoch"
            f" {topology.epoch}."
        )
        told.append((STALE_TOPOLOGY, detail))
    if runtime.hold_ms > now and group.assignment_epoch < group.epoch:
        why = "the configured initial rebalance delay"
        told.append((ASSIGNMENT_DELAYED, f"Assignment delayed due to {why}."))
    elif group.assignment_epoch < group.epoch:
        is_running = runtime.run is not None or runtime.target_write is not None
        why = "an assignor run under way" if is_running else "the configured assignment interval"
        told.append((ASSIGNMENT_DELAYED, f"Assignment delayed due to {why}."))
    problem = None if group.configured is None else group.configured.problem
    if problem is not None:
        detail = problem.detail
        if problem.code == MISSING_INTERNAL_TOPICS:
            detail += creation_errors(runtime, now)
        told.append((problem.code, detail))
    asking = runtime.own.shutdown_member_id
    if asking is not None:
        detail = (
            f"Streams group member {asking} encountered a fatal error and requested a shutdown for"
            " the entire application."
        )
        told.append((SHUTDOWN_APPLICATION, detail))
    if api_version >= OFFSETS_SINCE and (missing := missing_tags(group, member)):
        detail = (
            f"Missing required client tags for rack-aware standby assignment:"
            f" [{', '.join(missing)}]. Configure them via 'client.tag.<tagKey>' in your Streams"
            " config."
        )
        told.append((MISSING_CLIENT_TAGS, detail))
    return tuple(StreamsStatus(status_code=code, status_detail=detail) for code, detail in told)
