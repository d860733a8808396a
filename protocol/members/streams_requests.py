"""The requests of members of streams groups, and the tasks in the answers (KIP-1071)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from protocol.members.requests import UNCHANGED, AnyConfig, AnyMember, MemberMessages, milliseconds
from protocol.wire.streams_messages import (
    OwnedTaskIds,
    OwnedTaskOffset,
    StreamsConfig,
    StreamsGroupHeartbeatRequest,
    StreamsUserEndpoint,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.members.requests import HeartbeatFields
    from protocol.wire.embedded import TopicPartition
    from protocol.wire.streams_messages import AssignedTaskIds, StreamsTopology

CHANGELOG_END: Final = 1_000_000
"""The records of each changelog, as a member without state reports them."""

STREAMS_GROUP_HEARTBEAT: Final = StreamsGroupHeartbeatRequest.__api_key__


class OwnedTasks(NamedTuple):
    """A member's tasks by role, in the form of a request."""

    active: tuple[OwnedTaskIds, ...] = ()
    standby: tuple[OwnedTaskIds, ...] = ()
    warmup: tuple[OwnedTaskIds, ...] = ()


NO_TASKS: Final = OwnedTasks()


class AnyStreamsConfig(AnyConfig, Protocol):
    """The settings that a streams group's member sends (times in milliseconds)."""

    @property
    def topology(self) -> StreamsTopology:
        """The application's topology."""

    @property
    def rack_id(self) -> str | None:
        """The rack that it is on."""

    @property
    def user_endpoint(self) -> tuple[str, int] | None:
        """The host and port where others reach it."""

    @property
    def client_tags(self) -> tuple[tuple[str, str], ...]:
        """Pairs of key and value, for standby tasks on other racks."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that it may take to revoke tasks."""


class AnyStreamsMember(AnyMember, Protocol):
    """The state of a streams group's member that its requests contain."""

    @property
    def config(self) -> AnyStreamsConfig:
        """The settings."""

    owned: Any
    process_id: str
    endpoint_epoch: int
    shuts_down: bool
    reports_offsets: bool
    inputs: Mapping[str, tuple[str, ...]]
    partitions_of: Mapping[str, int]


class StreamsMessages(MemberMessages):
    """The messages of a streams group's member."""

    nothing: Any = NO_TASKS
    """The tasks of a member without any."""

    def heartbeat(self, member: AnyStreamsMember, tells: HeartbeatFields) -> Any:
        """Join with everything; otherwise report the tasks if they have changed."""
        config = member.config
        said: dict[str, Any] = dict.fromkeys(
            ("active_tasks", "standby_tasks", "warmup_tasks", "client_tags")
        )
        if tells.joins:
            endpoint = config.user_endpoint
            said = {
                "rack_id": config.rack_id,
                "rebalance_timeout": timedelta(milliseconds=config.rebalance_timeout_ms),
                "topology": config.topology,
                "active_tasks": (),
                "standby_tasks": (),
                "warmup_tasks": (),
                "process_id": member.process_id,
                "user_endpoint": endpoint
                and StreamsUserEndpoint(host=endpoint[0], port=endpoint[1]),
                "client_tags": tuple(
                    StreamsConfig(key=key, value=value) for key, value in config.client_tags
                ),
            }
        elif tells.owned:
            owned: OwnedTasks = member.owned
            said |= {
                "active_tasks": owned.active,
                "standby_tasks": owned.standby,
                "warmup_tasks": owned.warmup,
            }
        if not tells.joins and member.reports_offsets:
            said |= _offsets(member.owned, has_begun=tells.owned)
        return _request(member, member.generation, said)

    def leave(self, member: AnyStreamsMember, epoch: int) -> Any:
        """Leave, permanently or (a static member) temporarily."""
        said = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks", "client_tags"))
        return _request(member, epoch, said)

    def interval_ms(self, answer: Any) -> int:
        """Return the coordinator's heartbeat interval."""
        return milliseconds(answer.heartbeat_interval)

    def assigned(self, answer: Any) -> OwnedTasks | None:
        """Return the tasks in an answer, in the form of a request; None: nothing new."""
        if answer.active_tasks is None:
            return None
        return OwnedTasks(
            _owned(answer.active_tasks), _owned(answer.standby_tasks), _owned(answer.warmup_tasks)
        )

    def partitions(self, member: AnyStreamsMember, owned: OwnedTasks) -> tuple[TopicPartition, ...]:
        """Return the partitions that the active tasks read."""
        counts = member.partitions_of
        return tuple(
            sorted(
                (topic, index)
                for each in owned.active
                for topic in member.inputs.get(each.subtopology_id, ())
                for index in each.partitions
                if index < counts.get(topic, index + 1)
            )
        )


def _request(member: AnyStreamsMember, epoch: int, said: dict[str, Any]) -> Any:
    return StreamsGroupHeartbeatRequest(
        group_id=member.config.group_id,
        member_id=member.member_id,
        member_epoch=epoch,
        endpoint_information_epoch=member.endpoint_epoch,
        instance_id=member.config.instance_id,
        shutdown_application=member.shuts_down,
        **{
            "rebalance_timeout": UNCHANGED,
            "task_offsets": None,
            "task_end_offsets": None,
            **said,
        },
    )


def _offsets(owned: OwnedTasks, *, has_begun: bool) -> dict[str, Any]:
    """Report copies as caught up; a warm-up task only with the second heartbeat that has it."""
    if not has_begun and not owned.warmup:
        return {}
    standby, warmup = (
        [(each.subtopology_id, index) for each in tasks for index in each.partitions]
        for tasks in (owned.standby, owned.warmup)
    )
    ends = dict.fromkeys((*standby, *warmup), CHANGELOG_END)
    offsets = {**ends, **dict.fromkeys(warmup, 0)} if has_begun else ends
    return {
        name: tuple(
            OwnedTaskOffset(subtopology_id=task, partition=index, offset=offset)
            for (task, index), offset in told.items()
        )
        for name, told in (("task_offsets", offsets), ("task_end_offsets", ends))
    }


def _owned(tasks: tuple[AssignedTaskIds, ...] | None) -> tuple[OwnedTaskIds, ...]:
    return tuple(
        OwnedTaskIds(subtopology_id=each.subtopology_id, partitions=tuple(each.partitions))
        for each in tasks or ()
    )


STREAMS_MESSAGES: Final = StreamsMessages()
