"""Checks of a StreamsGroupHeartbeat, and the tasks that it reports."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from protocol.groups.modern.form import TaskRole
from protocol.groups.modern.hard_state import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from protocol.groups.streams.task_numbers import places
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.context import Context
    from protocol.groups.streams.configured import ConfiguredTopology
    from protocol.groups.streams.group import StreamsGroup
    from protocol.groups.topic_numbers import Partition
    from protocol.wire.streams_messages import (
        OwnedTaskIds,
        StreamsGroupHeartbeatRequest,
        StreamsTopology,
    )

    Tasks = tuple[OwnedTaskIds, ...] | None

UNCHANGED: Final = timedelta(milliseconds=-1)
"""``rebalance_timeout`` of a heartbeat that does not set it."""

OFFSETS_SINCE: Final = 1
"""The first version in which clients report the offsets of tasks, and know status 6."""

TEXT_LENGTH_MAX: Final = 32_767
"""Characters that fit into a Kafka string in any version; longer ids are refused."""

INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}", re.ASCII)


def check_served(ctx: Context) -> None:
    """Refuse if streams groups are disabled."""
    if "streams" not in ctx.configs.strings("group.coordinator.rebalance.protocols"):
        raise KafkaError(ErrorCode.unsupported_version)


def check(ctx: Context, message: StreamsGroupHeartbeatRequest, api_version: int) -> None:
    """Refuse a request that lacks a field or contradicts itself."""
    check_served(ctx)
    if message.topology is not None:
        _check_topic_names(message.topology)
    _check_unsupported(message, api_version)
    for name, text in (
        ("MemberId", message.member_id),
        ("GroupId", message.group_id),
        ("InstanceId", message.instance_id),
        ("RackId", message.rack_id),
    ):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
        if text is not None and len(text) > TEXT_LENGTH_MAX:
            raise _invalid("An id is too long.")
    epoch = message.member_epoch
    if epoch == JOIN_EPOCH:
        _check_join(message)
    elif epoch == STATIC_LEAVE_EPOCH and message.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    roles = roles_of(message)
    if any(tasks is not None for _, tasks in roles) and any(tasks is None for _, tasks in roles):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if epoch != JOIN_EPOCH and message.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_topic_names(topology: StreamsTopology) -> None:
    """Refuse internal and invalid names, which no topic of an application can have."""
    names = dict.fromkeys(
        name
        for each in topology.subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    )
    if prohibited := [name for name in names if name in INTERNAL]:
        raise _invalid_topology(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is"
            " prohibited."
        )
    if invalid := [name for name in names if not _TOPIC_NAME.fullmatch(name)]:
        raise _invalid_topology(f"Topic names {','.join(invalid)} are not valid topic names.")


def _check_unsupported(message: StreamsGroupHeartbeatRequest, api_version: int) -> None:
    if api_version < OFFSETS_SINCE and message.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if api_version < OFFSETS_SINCE and message.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if api_version < OFFSETS_SINCE and message.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")
    topology = message.topology
    if topology is not None and any(each.source_topic_regex for each in topology.subtopologies):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def _check_join(message: StreamsGroupHeartbeatRequest) -> None:
    if message.rebalance_timeout == UNCHANGED:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", message.active_tasks),
        ("StandbyTasks", message.standby_tasks),
        ("WarmupTasks", message.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if message.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    seen: set[str] = set()
    for each in message.topology.subtopologies:
        for topic in each.state_changelog_topics:
            if topic.partitions:
                raise _invalid_topology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it"
                    f" is set to {topic.partitions}."
                )
        if each.subtopology_id in seen:
            raise _invalid_topology(f"There are two subtopologies {each.subtopology_id}.")
        seen.add(each.subtopology_id)


def check_tasks(configured: ConfiguredTopology, message: StreamsGroupHeartbeatRequest) -> None:
    """Refuse a request that reports tasks which the configured topology does not have."""
    rows = configured.rows
    if not configured.is_ready or rows is None:
        return
    for _, tasks in roles_of(message):
        for each in tasks or ():
            name = each.subtopology_id
            row = rows.get(name)
            if row is None:
                raise _invalid(f"Subtopology {name} does not exist in the topology.")
            for index in each.partitions:
                if not 0 <= index < row.tasks:
                    raise _invalid(
                        f"Task {index} for subtopology {name} is invalid. Number of tasks for this"
                        f" subtopology: {row.tasks}"
                    )


def roles_of(message: StreamsGroupHeartbeatRequest) -> tuple[tuple[TaskRole, Tasks], ...]:
    """Return the tasks that the member reports, by role; None: it does not report them."""
    return (
        (TaskRole.ACTIVE, message.active_tasks),
        (TaskRole.STANDBY, message.standby_tasks),
        (TaskRole.WARMUP, message.warmup_tasks),
    )


def owned_tasks(
    group: StreamsGroup, message: StreamsGroupHeartbeatRequest
) -> set[Partition] | None:
    """Return the tasks that the member reports; None if it does not report any.

    Those of subtopologies that no record ever named cannot matter, and are left out.
    """
    owned: set[Partition] = set()
    for role, tasks in roles_of(message):
        if tasks is None:
            return None
        owned.update(_places(group, role, tasks))
    return owned


def knows_all(group: StreamsGroup, message: StreamsGroupHeartbeatRequest) -> bool:
    """Whether every subtopology that the member reports tasks of is known here."""
    return all(
        group.numbers.known(each.subtopology_id) is not None
        for _, tasks in roles_of(message)
        for each in tasks or ()
    )


def _places(
    group: StreamsGroup, role: TaskRole, tasks: Iterable[OwnedTaskIds]
) -> Iterable[Partition]:
    for each in tasks:
        number = group.numbers.known(each.subtopology_id)
        if number is not None:
            yield from places(role, number, [index for index in each.partitions if index >= 0])


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, sentence)


def _invalid_topology(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.streams_invalid_topology, sentence)
