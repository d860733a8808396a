"""A classic consumer-group member, dynamic or static, without sockets and without a clock.

Its driver (a test, the simulator, the load engine) asks ``poll(now)`` what to send, brings back
each answer with ``receive`` or its absence with ``lost``, and polls again at ``next_deadline()``.
At most one request is in flight; a JoinGroup may stay unanswered for the whole rebalance timeout.

The member finds its coordinator, joins (KIP-394: once more when it is told its member id), assigns
if it is the group's leader (not when KIP-814 tells it to skip), heartbeats, commits, joins again
when told to, and leaves with a reason (KIP-800). A static member never leaves: it just stops, and
whoever runs its instance id next takes its place (KIP-345).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from protocol.members import requests
from protocol.members.assignor import Subscriber, range_assign
from protocol.members.cures import CURES, JOIN_REASONS, Cure, cure
from protocol.members.history import Kind, MemberHistoryEvent
from protocol.wire.embedded import decode_assignment, decode_subscription, encode_assignment
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity, RequestPayload

    from protocol.wire.embedded import TopicPartition

UNKNOWN_GENERATION: Final = -1
JOIN_GRACE_MS: Final = 5_000
"""A JoinGroup is given up this long after the rebalance timeout, as Kafka's clients do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """A member's settings under Kafka's names; ``instance_id`` makes it static."""

    group_id: str
    topics: tuple[str, ...]
    client_id: str = "member"
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 3_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class Node:
    """Where a coordinator listens."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """A request to send: to the coordinator, or (``to`` None) to any node of the cluster."""

    message: RequestPayload
    to: Node | None


class State(StrEnum):
    """Where the member stands.

    UNJOINED: joins as soon as it may. PREPARING_REBALANCE: its JoinGroup is in flight.
    COMPLETING_REBALANCE: it syncs. STABLE: it heartbeats. LEFT and FAILED: it is done.
    """

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing-rebalance"
    COMPLETING_REBALANCE = "completing-rebalance"
    STABLE = "stable"
    LEFT = "left"
    FAILED = "failed"


class ClassicMember:
    """One member's conversation with its coordinator.

    ``partitions_of`` (topic name to partition count) is what the member knows of the topics when
    it assigns as the leader; its driver may replace it at any time.
    """

    def __init__(
        self, config: MemberConfig, rng: random.Random, partitions_of: Mapping[str, int]
    ) -> None:
        self.config = config
        self.partitions_of = partitions_of
        self.state = State.UNJOINED
        self.member_id = ""
        self.generation = UNKNOWN_GENERATION
        self.partitions: tuple[TopicPartition, ...] = ()
        self.coordinator: Node | None = None
        self.history: list[MemberHistoryEvent] = []
        self._rng = rng
        self._in_flight: Outgoing | None = None
        self._overdue_at = 0
        self._retry_at = 0
        self._failures = 0
        self._heartbeat_at = 0
        self._joins_because: Cure | None = None
        self._protocol_name = ""
        self._assignments: tuple[SyncGroupRequestAssignment, ...] = ()
        self._uncommitted: dict[TopicPartition, int] = {}
        self._committing: dict[TopicPartition, int] = {}
        self._leave_reason: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the member has left or failed for good."""
        return self.state is State.LEFT or self.state is State.FAILED

    # What the driver calls.

    def poll(self, now: int) -> list[Outgoing]:
        """Return what to send now: one request or none."""
        if self._in_flight is not None:
            if now < self._overdue_at:
                return []
            self.lost(self._in_flight, now)
        if self.is_done or now < self._retry_at:
            return []
        message = self._next_message(now)
        if message is None:
            return []
        patience_ms = self.config.request_timeout_ms
        if isinstance(message, JoinGroupRequest):
            patience_ms = self.config.rebalance_timeout_ms + JOIN_GRACE_MS
        to = None if isinstance(message, FindCoordinatorRequest) else self.coordinator
        self._in_flight = Outgoing(message, to)
        self._overdue_at = now + patience_ms
        return [self._in_flight]

    def receive(self, request: Outgoing, response: Entity, now: int) -> None:
        """Take the answer to ``request``; an answer that came too late changes nothing."""
        if request is self._in_flight:
            self._in_flight = None
            RECEIVERS[type(request.message)](self, response, now)

    def lost(self, request: Outgoing, now: int) -> None:
        """Take it that ``request`` will have no answer: its connection is gone."""
        if request is not self._in_flight:
            return
        self._in_flight = None
        self._note(now, Kind.DISCONNECTED)
        if isinstance(request.message, OffsetCommitRequest):
            self._note(now, Kind.COMMIT_FAILED, "disconnected", self._committing)
        elif isinstance(request.message, LeaveGroupRequest):
            self._end(State.LEFT, now)
        elif isinstance(request.message, (JoinGroupRequest, SyncGroupRequest)):
            self.state = State.UNJOINED
        self._heartbeat_at = now
        self._back_off(now, Cure.REDISCOVER)

    def disconnected(self, now: int) -> None:
        """Take it that the idle connection to the coordinator is gone: look for it at once.

        A heartbeat follows as soon as it is found, as the group may have moved.
        """
        if self._in_flight is None and self.coordinator is not None and not self.is_done:
            self._note(now, Kind.DISCONNECTED)
            self._heartbeat_at = now
            self.coordinator = None

    def next_deadline(self) -> int | None:
        """Return when to poll next if nothing happens before; None once the member is done."""
        if self.is_done:
            return None
        if self._in_flight is not None:
            return self._overdue_at
        idle = (
            self.state is State.STABLE
            and self.coordinator is not None
            and not self._uncommitted
            and self._leave_reason is None
        )
        return max(self._retry_at, self._heartbeat_at if idle else 0)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit ``offsets`` with the next poll, as far as their partitions are owned then."""
        self._uncommitted.update(offsets)

    def leave(self, reason: str) -> None:
        """Leave the group with the next poll (dynamic), or stop (static)."""
        self._leave_reason = reason

    # What to send.

    def _next_message(self, now: int) -> RequestPayload | None:
        if self._leave_reason is not None and (self.config.instance_id or not self.member_id):
            self._end(State.LEFT, now)
            return None
        if self.coordinator is None:
            return requests.find_coordinator(self)
        return self._group_message(now)

    def _group_message(self, now: int) -> RequestPayload | None:
        if self._leave_reason is None and self._heartbeat_is_due(now):
            return requests.heartbeat(self)  # before commits: refused ones must not starve it
        if self._uncommitted and self._take_owned():
            return requests.commit(self, self._committing)
        if self._leave_reason is not None:
            return requests.leave(self, self._leave_reason)
        if self.state is State.UNJOINED:
            self.state = State.PREPARING_REBALANCE
            self.partitions = ()  # given up before it joins: its subscription says so
            return requests.join(self, JOIN_REASONS[self._joins_because])
        if self.state is State.COMPLETING_REBALANCE:
            return requests.sync(self, self._protocol_name, self._assignments)
        return None

    def _heartbeat_is_due(self, now: int) -> bool:
        return self.state is State.STABLE and now >= self._heartbeat_at

    def _take_owned(self) -> bool:
        """Take the offsets of owned partitions out of the queue; the others are forgotten."""
        self._committing = {
            partition: self._uncommitted[partition]
            for partition in self.partitions
            if partition in self._uncommitted
        }
        self._uncommitted.clear()
        return bool(self._committing)

    # What came back.

    def _coordinator_found(self, response: FindCoordinatorResponse, now: int) -> None:
        found = response.coordinators[0]
        if found.error_code:
            self._cure(found.error_code, now)
        else:
            self.coordinator = Node(found.node_id, found.host, found.port)

    def _joined(self, response: JoinGroupResponse, now: int) -> None:
        if response.error_code is ErrorCode.member_id_required:
            self.state = State.UNJOINED
            self.member_id = response.member_id
        elif response.error_code:
            self._cure(response.error_code, now)
            if not self.is_done:
                self._back_off(now)
        else:
            self.state = State.COMPLETING_REBALANCE
            self.member_id = response.member_id
            self.generation = response.generation_id
            self._failures = 0
            self._protocol_name = response.protocol_name or ""
            self._assignments = self._assign(response)
            self._note(now, Kind.JOINED)

    def _assign(self, response: JoinGroupResponse) -> tuple[SyncGroupRequestAssignment, ...]:
        if response.leader != response.member_id or response.skip_assignment:
            return ()
        subscribers = []
        for member in response.members:
            subscription = decode_subscription(member.metadata)
            topics = subscription.topics if subscription else ()
            subscribers.append(Subscriber(member.member_id, member.group_instance_id, topics))
        return tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(owned))
            for member_id, owned in range_assign(subscribers, self.partitions_of).items()
        )

    def _synced(self, response: SyncGroupResponse, now: int) -> None:
        if response.error_code:
            self._cure(response.error_code, now)
            return
        self.state = State.STABLE
        self.partitions = tuple(sorted(decode_assignment(response.assignment) or ()))
        self._failures = 0
        self._assignments = ()
        self._heartbeat_at = now + self.config.heartbeat_interval_ms
        self._note(now, Kind.ASSIGNED)

    def _heartbeat_answered(self, response: HeartbeatResponse, now: int) -> None:
        if response.error_code:
            self._cure(response.error_code, now)
            return
        self._failures = 0
        self._heartbeat_at = now + self.config.heartbeat_interval_ms
        self._note(now, Kind.HEARTBEAT)

    def _committed(self, response: OffsetCommitResponse, now: int) -> None:
        errors = (
            partition.error_code for topic in response.topics for partition in topic.partitions
        )
        error = next(filter(None, errors), None)
        if error is None:
            self._failures = 0
            self._note(now, Kind.COMMITTED, offsets=self._committing)
        else:
            self._note(now, Kind.COMMIT_FAILED, error.name, self._committing)
            if error in CURES:  # the others are about the offsets, not about the member
                self._cure(error, now)

    def _left(self, _response: LeaveGroupResponse, now: int) -> None:
        self._end(State.LEFT, now)

    # What an error leads to.

    def _cure(self, error: ErrorCode, now: int) -> None:
        needed = cure(error)
        if needed is Cure.GIVE_UP:
            self._end(State.FAILED, now, error.name)
        elif needed in (Cure.RETRY, Cure.REDISCOVER):
            self._note(now, Kind.RETRIED, error.name)
            if self.state is State.PREPARING_REBALANCE:
                self.state = State.UNJOINED
            self._back_off(now, needed)
        else:
            self._join_again(needed, error, now)

    def _join_again(self, because: Cure, error: ErrorCode, now: int) -> None:
        self.state = State.UNJOINED
        self._joins_because = because
        if because is not Cure.REJOIN:
            self.generation = UNKNOWN_GENERATION
            self.partitions = ()
        if because is Cure.NEW_MEMBER_ID:
            self.member_id = ""
        kind = Kind.REBALANCING if because is Cure.REJOIN else Kind.LOST
        self._note(now, kind, error.name)

    def _back_off(self, now: int, needed: Cure = Cure.RETRY) -> None:
        """Wait exponentially longer with each failure in a row, give or take a fifth."""
        config = self.config
        delay_ms = min(config.retry_backoff_ms << self._failures, config.retry_backoff_max_ms)
        self._failures = min(self._failures + 1, 10)
        self._retry_at = now + round(delay_ms * self._rng.uniform(0.8, 1.2))
        if needed is Cure.REDISCOVER:
            self.coordinator = None

    def _end(self, state: State, now: int, error: str | None = None) -> None:
        self.state = state
        self._uncommitted.clear()
        self._note(now, Kind.LEFT if state is State.LEFT else Kind.FAILED, error)

    def _note(
        self,
        now: int,
        kind: Kind,
        error: str | None = None,
        offsets: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.history.append(
            MemberHistoryEvent(
                time_ms=now,
                kind=kind,
                member_id=self.member_id,
                instance_id=self.config.instance_id,
                generation=self.generation,
                partitions=self.partitions,
                error=error,
                offsets=tuple((*at, offset) for at, offset in sorted((offsets or {}).items())),
            )
        )


RECEIVERS: Final[Mapping[type, Callable[[ClassicMember, Any, int], None]]] = {
    FindCoordinatorRequest: ClassicMember._coordinator_found,
    JoinGroupRequest: ClassicMember._joined,
    SyncGroupRequest: ClassicMember._synced,
    HeartbeatRequest: ClassicMember._heartbeat_answered,
    OffsetCommitRequest: ClassicMember._committed,
    LeaveGroupRequest: ClassicMember._left,
}
"""Request type to the method that takes its answer (whose type the request's settles)."""
