"""A classic consumer-group member, dynamic or static, without sockets and without a clock.

The member finds its coordinator, joins (KIP-394: once more when it is told its member id), assigns
if it is the group's leader (not when KIP-814 tells it to skip), heartbeats, commits, joins again
when told to, and leaves with a reason (KIP-800). A static member never leaves: it just stops, and
whoever runs its instance id next takes its place (KIP-345). A JoinGroup may
stay unanswered for the whole rebalance timeout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from protocol.members import requests
from protocol.members.assignor import Subscriber, range_assign
from protocol.members.conversation import Conversation, Receivers, State
from protocol.members.cures import CURES, JOIN_REASONS, Cure, cure
from protocol.members.history import Kind
from protocol.wire.embedded import decode_assignment, decode_subscription, encode_assignment
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from kio.static.protocol import Entity, RequestPayload


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


class ClassicMember(Conversation):
    """One member's conversation with its coordinator.

    ``partitions_of`` (topic name to partition count) is what the member knows of the topics when
    it assigns as the leader; its driver may replace it at any time.
    """

    def __init__(
        self, config: MemberConfig, rng: random.Random, partitions_of: Mapping[str, int]
    ) -> None:
        super().__init__(rng, member_id="", generation=UNKNOWN_GENERATION)
        self.config: MemberConfig = config
        self.partitions_of = partitions_of
        self._joins_because: Cure | None = None
        self._protocol_name = ""
        self._assignments: tuple[SyncGroupRequestAssignment, ...] = ()
        self._leave_reason: str | None = None

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
            self._overdue_at = now + self.config.rebalance_timeout_ms + JOIN_GRACE_MS
            return requests.join(self, JOIN_REASONS[self._joins_because])
        if self.state is State.COMPLETING_REBALANCE:
            return requests.sync(self, self._protocol_name, self._assignments)
        return None

    def _heartbeat_is_due(self, now: int) -> bool:
        return self.state is State.STABLE and now >= self._heartbeat_at

    def _has_work(self) -> bool:
        return self.state is not State.STABLE or self._leave_reason is not None

    # What came back.

    def _joined(self, _: Entity, response: JoinGroupResponse, now: int) -> None:
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

    def _synced(self, _: Entity, response: SyncGroupResponse, now: int) -> None:
        if response.error_code:
            self._cure(response.error_code, now)
            return
        self.state = State.STABLE
        self.partitions = tuple(sorted(decode_assignment(response.assignment) or ()))
        self._failures = 0
        self._assignments = ()
        self._heartbeat_at = now + self.config.heartbeat_interval_ms
        self._note(now, Kind.ASSIGNED)

    def _heartbeat_answered(self, _: Entity, response: HeartbeatResponse, now: int) -> None:
        if response.error_code:
            self._cure(response.error_code, now)
            return
        self._failures = 0
        self._heartbeat_at = now + self.config.heartbeat_interval_ms
        self._note(now, Kind.HEARTBEAT)

    def _left(self, _: Entity, _response: LeaveGroupResponse, now: int) -> None:
        self._end(State.LEFT, now)

    def _unanswered(self, message: RequestPayload, now: int) -> None:
        if isinstance(message, LeaveGroupRequest):
            self._end(State.LEFT, now)
        elif isinstance(message, (JoinGroupRequest, SyncGroupRequest)):
            self.state = State.UNJOINED

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

    def _commit_refused(self, error: ErrorCode, now: int) -> None:
        if error in CURES:  # the others are about the offsets, not about the member
            self._cure(error, now)

    RECEIVERS: ClassVar[Receivers] = {
        FindCoordinatorRequest: Conversation._coordinator_found,
        JoinGroupRequest: _joined,
        SyncGroupRequest: _synced,
        HeartbeatRequest: _heartbeat_answered,
        OffsetCommitRequest: Conversation._committed,
        LeaveGroupRequest: _left,
    }
