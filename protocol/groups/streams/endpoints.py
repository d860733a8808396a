"""Which partitions each member's endpoint serves, for interactive queries (KIP-1071)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.streams.answers import tasks_by_role
from protocol.groups.streams.group import StreamsGroup, streams_group_of
from protocol.groups.streams.topology import sources_of
from protocol.wire.streams_messages import (
    EndpointToPartitions,
    EndpointTopicPartitions,
    ReportedEndpoint,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.context import Context
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.streams.group import StreamsGroupMember
    from protocol.wire.streams_messages import StreamsGroupHeartbeatRequest


def report_endpoints(
    ctx: Context,
    runtime: ModernGroupRuntime,
    member: StreamsGroupMember,
    message: StreamsGroupHeartbeatRequest,
    *,
    has_changed: bool,
) -> tuple[EndpointToPartitions, ...] | None:
    """Return every endpoint with its partitions if the member has an older version of them.

    ``has_changed``: the member has other tasks than before.
    """
    own = runtime.own
    if has_changed:
        own.endpoints.pop(member.member_id, None)
        if member.metadata.user_endpoint is not None:
            own.endpoint_epoch += 1
            runtime.end_leases()
            for session in runtime.sessions.values():
                session.answer = None
    if own.endpoint_epoch == message.endpoint_information_epoch:
        return None
    group = streams_group_of(runtime)
    for member_id in own.endpoints.keys() - group.members.keys():
        del own.endpoints[member_id]
    return tuple(
        own.endpoints.get(each.member_id) or _endpoint(ctx, runtime, group, each)
        for each in group.members.values()
        if each.metadata.user_endpoint is not None
    )


def _endpoint(
    ctx: Context, runtime: ModernGroupRuntime, group: StreamsGroup, member: StreamsGroupMember
) -> EndpointToPartitions:
    endpoint = member.metadata.user_endpoint
    assert endpoint is not None
    active, standby, warmup = tasks_by_role(member.assignment.assigned, group.numbers)
    made = EndpointToPartitions(
        user_endpoint=ReportedEndpoint(host=endpoint.host, port=endpoint.port),
        active_partitions=_partitions(ctx, group, active),
        standby_partitions=_partitions(ctx, group, [*standby, *warmup]),
    )
    runtime.own.endpoints[member.member_id] = made
    return made


def _partitions(
    ctx: Context, group: StreamsGroup, tasks: Iterable[tuple[str, list[int]]]
) -> tuple[EndpointTopicPartitions, ...]:
    """Return the partitions of the source topics of tasks, as far as the topics have them."""
    found: dict[str, list[int]] = {}
    topology = group.topology
    for subtopology_id, indexes in tasks:
        subtopology = None if topology is None else topology.subtopologies.get(subtopology_id)
        for name in () if subtopology is None else sources_of(subtopology):
            topic = ctx.topics.by_name(name)
            count = 0 if topic is None else topic.partitions
            found.setdefault(name, []).extend(index for index in indexes if index < count)
    return tuple(
        EndpointTopicPartitions(topic=name, partitions=tuple(sorted(indexes)))
        for name, indexes in sorted(found.items())
    )
