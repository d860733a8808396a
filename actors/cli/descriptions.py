"""Descriptions of groups, in one form for all types."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from actors.cli.client import ApiNotServedError, ClientError, named
from protocol.wire.embedded import decode_assignment
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    ShareGroupDescribeRequest,
)
from protocol.wire.streams_messages import StreamsGroupDescribeRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.cli.client import AdminClient
    from protocol.wire.embedded import TopicPartition

CLASSIC_MEMBER: Final = 0
"""Member type of ConsumerGroupDescribe 1: a member of the classic protocol in a consumer group."""

ACTIVE: Final = "ACTIVE"
"""The role of tasks that process records, as Kafka's tool writes it."""

NO_GROUP: Final = "the group does not exist (GROUP_ID_NOT_FOUND)"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member. ``epoch`` and ``target`` are None in a classic group, ``target`` in a share group.

    ``is_upgraded``: whether it uses the consumer protocol; None if the broker does not say. In a
    streams group ``assigned`` and ``target`` are its active tasks (subtopology and index);
    ``tasks`` and ``target_tasks`` are all of them by role, and ``process_id`` is its process.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...]
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None
    is_upgraded: bool | None = None
    rack_id: str | None = None
    process_id: str = ""
    tasks: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    target_tasks: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group. ``epoch`` and ``target_epoch`` are None in a classic group.

    Of a streams group there are also the epoch of its topology, the topics that each of its
    subtopologies reads (``sources``), those of them that its application does not own
    (``input_topics``), and those that it does: repartition and changelog topics.
    """

    group_id: str
    group_type: str
    state: str
    assignor: str
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    target_epoch: int | None = None
    topology_epoch: int | None = None
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    input_topics: frozenset[str] = frozenset()
    internal_topics: frozenset[str] = frozenset()

    @property
    def is_mixed(self) -> bool:
        """Whether it has members of both protocols."""
        return any(member.is_upgraded is False for member in self.members)


def describe_group(client: AdminClient, group_id: str, probable_type: str = "") -> GroupDescription:
    """Describe one group of any type; raises ClientError if it does not exist.

    DescribeGroups reports groups of other types as missing or dead, so the requests of the other
    types follow. Kafka's tools send the first two in the opposite order. The request of the
    ``probable_type`` comes first.
    """
    describes = {
        "classic": _classic, "consumer": _consumer, "share": _share, "streams": _streams
    }  # fmt: skip
    for group_type in sorted(describes, key=lambda each: each != probable_type):
        found = describes[group_type](client, group_id)
        if found is not None:
            return found
    raise ClientError(f"group {group_id}: {NO_GROUP}")


def _classic(client: AdminClient, group_id: str) -> GroupDescription | None:
    request = DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=False)
    group = _only(client, group_id, request)
    if group.error_code is ErrorCode.group_id_not_found or group.group_state == "Dead":
        return None
    _check(group_id, group)
    return GroupDescription(
        group_id=group_id,
        group_type="classic",
        state=group.group_state,
        assignor=group.protocol_data,
        members=tuple(
            _member(each, each.group_instance_id, decode_assignment(each.member_assignment) or ())
            for each in group.members
        ),
    )


def _consumer(client: AdminClient, group_id: str) -> GroupDescription | None:
    group = _of_type(client, group_id, ConsumerGroupDescribeRequest)
    if group is None:
        return None
    members = tuple(
        replace(
            _member(each, each.instance_id, _partitions(each.assignment)),
            epoch=each.member_epoch,
            target=_partitions(each.target_assignment),
            is_upgraded=None if each.member_type < 0 else each.member_type != CLASSIC_MEMBER,
        )
        for each in group.members
    )
    return _modern(group, "consumer", group.assignor_name, members)


def _share(client: AdminClient, group_id: str) -> GroupDescription | None:
    """Describe a share group: brokers do not tell its members' targets."""
    group = _of_type(client, group_id, ShareGroupDescribeRequest)
    if group is None:
        return None
    members = tuple(
        replace(_member(each, None, _partitions(each.assignment)), epoch=each.member_epoch)
        for each in group.members
    )
    return _modern(group, "share", group.assignor_name, members)


def _streams(client: AdminClient, group_id: str) -> GroupDescription | None:
    """Describe a streams group, with its tasks and what they read."""
    group = _of_type(client, group_id, StreamsGroupDescribeRequest)
    if group is None:
        return None
    members = tuple(
        replace(
            _member(each, each.instance_id, _tasks(each.assignment)[ACTIVE]),
            epoch=each.member_epoch,
            target=_tasks(each.target_assignment)[ACTIVE],
            is_upgraded=not each.is_classic,
            process_id=each.process_id,
            tasks=_tasks(each.assignment),
            target_tasks=_tasks(each.target_assignment),
        )
        for each in group.members
    )
    described = _modern(group, "streams", "", members)
    topology = group.topology
    if topology is None:
        return described
    subtopologies = topology.subtopologies or ()
    inputs = frozenset(name for each in subtopologies for name in each.source_topics)
    internal = frozenset(
        topic.name
        for each in subtopologies
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
    )
    return replace(
        described,
        topology_epoch=topology.epoch,
        input_topics=inputs,
        internal_topics=internal - inputs,
        sources={
            each.subtopology_id: (
                *each.source_topics,
                *(topic.name for topic in each.repartition_source_topics),
            )
            for each in subtopologies
        },
    )


def _of_type(client: AdminClient, group_id: str, api: Callable[..., Any]) -> Any:
    """Return what the API of one type says of a group; None: it is no group of that type.

    The broker may be too old for the type, or have it switched off.
    """
    request = api(group_ids=(group_id,), include_authorized_operations=False)
    try:
        group = _only(client, group_id, request)
    except ApiNotServedError:
        return None
    if group.error_code in {ErrorCode.group_id_not_found, ErrorCode.unsupported_version}:
        return None
    _check(group_id, group)
    return group


def _modern(
    group: Any, group_type: str, assignor: str, members: tuple[MemberDescription, ...]
) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        group_type=group_type,
        state=group.group_state,
        assignor=assignor,
        members=members,
        epoch=group.group_epoch,
        target_epoch=group.assignment_epoch,
    )


def _tasks(assignment: Any) -> Mapping[str, tuple[TopicPartition, ...]]:
    """Return tasks by role: the names of subtopologies, each with an index."""
    roles = {
        ACTIVE: assignment.active_tasks,
        "STANDBY": assignment.standby_tasks,
        "WARMUP": assignment.warmup_tasks,
    }
    return {
        role: tuple((each.subtopology_id, index) for each in tasks for index in each.partitions)
        for role, tasks in roles.items()
    }


def _member(
    said: Any, instance_id: str | None, assigned: tuple[TopicPartition, ...]
) -> MemberDescription:
    """Return the fields that all types of group have."""
    return MemberDescription(
        member_id=said.member_id,
        instance_id=instance_id,
        client_id=said.client_id,
        host=said.client_host,
        assigned=assigned,
        rack_id=getattr(said, "rack_id", None) or None,  # not of classic members
    )


def _only(client: AdminClient, group_id: str, request: Any) -> Any:
    answer = client.ask_coordinator(
        group_id, request, lambda answer: [each.error_code for each in answer.groups]
    )
    (group,) = answer.groups
    return group


def _check(group_id: str, group: Any) -> None:
    code = group.error_code
    if code is not ErrorCode.none:
        words = (group.error_message or "").rstrip(".")
        said = f"{words} ({named(code)})" if words else named(code)
        raise ClientError(f"group {group_id}: {said}")


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            (topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )
