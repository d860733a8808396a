"""A member of a streams group (KIP-1071), dynamic or static, without sockets and clock.

It sends its topology, process id, endpoint and tags when it joins. Each new assignment has active,
standby and warm-up tasks; the member revokes and starts tasks at once, and reports them with its
next heartbeat. What the coordinator says about the group is in ``statuses``. As in Kafka Streams, a
member that is told that another one ends the application leaves.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from protocol.members.client import MemberClient, Receivers, State
from protocol.members.error_actions import STREAMS_ERROR_ACTIONS, ErrorAction
from protocol.members.heartbeating import JOIN_EPOCH, HeartbeatingMember
from protocol.members.requests import FIND_COORDINATOR, OFFSET_COMMIT
from protocol.members.streams_requests import (
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_MESSAGES,
    StreamsMessages,
)
from protocol.members.topology import input_topics

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from protocol.wire.errors import ErrorCode
    from protocol.wire.streams_messages import StreamsTopology

SHUTDOWN_APPLICATION: Final = 4
"""The status that asks every member to leave (KIP-1071, "StreamsGroupHeartbeat")."""

NO_OFFSETS: Final = timedelta(0)
"""The interval between reports of offsets, from a coordinator that reads none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMemberConfig:
    """A member's settings under Kafka's names; ``instance_id`` makes it static.

    ``process_id`` is that of its application instance, which may have several members; "": the
    member is alone in its process. ``user_endpoint`` is a host and port. ``client_tags`` are pairs
    of key and value. ``heartbeat_interval_ms`` None uses the coordinator's interval.
    ``revocation_ms`` is what its application needs to give tasks up.
    """

    group_id: str
    topology: StreamsTopology
    client_id: str = "member"
    instance_id: str | None = None
    rack_id: str | None = None
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    revocation_ms: int = 0

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics from which the application reads, without repartition topics."""
        return tuple(
            dict.fromkeys(
                topic for each in self.topology.subtopologies for topic in each.source_topics
            )
        )


class StreamsMember(HeartbeatingMember):
    """One member's conversation with its coordinator.

    ``partitions`` are those that its active tasks read; ``owned`` are its tasks by role.
    ``reports_offsets``: the coordinator reads the offsets of tasks, since version 1.
    ``partitions_of`` (topic name to partition count) tells which topics of a subtopology have a
    task's partition; its driver may replace it. ``statuses`` are pairs of code and detail.
    """

    HEARTBEAT_API: ClassVar[int] = STREAMS_GROUP_HEARTBEAT
    ERROR_ACTIONS: ClassVar[Mapping[ErrorCode, ErrorAction]] = STREAMS_ERROR_ACTIONS

    def __init__(
        self,
        config: StreamsMemberConfig,
        rng: random.Random,
        partitions_of: Mapping[str, int],
        requests: StreamsMessages = STREAMS_MESSAGES,
    ) -> None:
        member_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        super().__init__(rng, member_id, requests)
        self.config: StreamsMemberConfig = config
        self.partitions_of = partitions_of
        self.topics = config.topics
        self.process_id = config.process_id or member_id
        self.statuses: tuple[tuple[int, str], ...] = ()
        self.endpoint_epoch = 0
        self.shuts_down = False
        self.reports_offsets = False
        self.inputs = {
            each.subtopology_id: input_topics(each) for each in config.topology.subtopologies
        }

    def shut_down(self, now: int) -> None:
        """Ask every member to leave, as after a fatal error, with the next heartbeat: at once."""
        self.shuts_down = True
        self._heartbeat_at = now

    def _told_topics(self) -> tuple[str, ...] | None:
        return self.topics

    @property
    def _interval_ms(self) -> int | None:
        return self.config.heartbeat_interval_ms

    @property
    def _revocation_ms(self) -> int:
        return self.config.revocation_ms

    def _streams_answered(self, response: Any, now: int) -> None:
        """Take the epoch, tasks and statuses of an answer."""
        self._heartbeat_answered(response, now)
        if response.error_code or self.is_done or self.generation == JOIN_EPOCH:
            return
        self.endpoint_epoch = response.endpoint_information_epoch
        self.reports_offsets = getattr(response, "task_offset_interval", NO_OFFSETS) > NO_OFFSETS
        if response.status is not None:
            self.statuses = tuple(
                (each.status_code, each.status_detail) for each in response.status
            )
        if any(code == SHUTDOWN_APPLICATION for code, _ in self.statuses):
            self.leave("the application is shut down", for_good=True)

    def _end(self, state: State, now: int, error: str | None = None) -> None:
        self.statuses = ()
        super()._end(state, now, error)

    RECEIVERS: ClassVar[Receivers] = {
        FIND_COORDINATOR: MemberClient._coordinator_found,
        STREAMS_GROUP_HEARTBEAT: _streams_answered,
        OFFSET_COMMIT: MemberClient._committed,
    }
