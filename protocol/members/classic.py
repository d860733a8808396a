"""A classic consumer-group member, dynamic or static, without sockets and without a clock.

The member finds its coordinator and joins (KIP-394: again, once it knows its member id). As leader
it computes the assignment, unless KIP-814 tells it to skip that, and rejoins when a topic of the
group has changed: the coordinator does not look at topics. It heartbeats, commits, rejoins when
told to, and leaves with a reason (KIP-800). A static member never leaves: it just stops, and
the next member with its instance id takes its place (KIP-345). A JoinGroup may stay unanswered for
the whole rebalance timeout.

An eager member gives up all its partitions before it joins. A cooperative one keeps them: once it
has its new assignment, it gives up what is not in it, and then joins again (KIP-429).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from protocol.members.assignors import ASSIGNORS, ClassicAssignor, LastAssigned
from protocol.members.client import MemberClient, Receivers, State
from protocol.members.error_actions import ERROR_ACTIONS, JOIN_REASONS, ErrorAction, action_for
from protocol.members.history import MemberHistoryKind
from protocol.members.requests import (
    CLASSIC_MESSAGES,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
)
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping

    from protocol.members.requests import ClassicMessages
    from protocol.wire.embedded import TopicPartition
    from protocol.wire.messages import (
        HeartbeatResponse,
        JoinGroupResponse,
        LeaveGroupResponse,
        SyncGroupResponse,
    )


UNKNOWN_GENERATION: Final = -1
JOIN_GRACE_MS: Final = 5_000
"""A JoinGroup is given up this long after the rebalance timeout, as Kafka's clients do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """A member's settings under Kafka's names; ``instance_id`` makes it static.

    ``assignor`` is the only one that it offers. ``revocation_ms`` is what its application needs to
    give partitions up, before it joins again.
    """

    group_id: str
    topics: tuple[str, ...]
    client_id: str = "member"
    instance_id: str | None = None
    assignor: ClassicAssignor = ClassicAssignor.RANGE
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 3_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    revocation_ms: int = 0


class ClassicMember(MemberClient):
    """One member's conversation with its coordinator.

    ``partitions_of`` (topic name to partition count) is the member's metadata when it assigns as
    the leader; its driver may replace it at any time. ``last_assigned`` is what its assignor tells
    the leader. ``requests`` encodes its requests.
    """

    def __init__(
        self,
        config: MemberConfig,
        rng: random.Random,
        partitions_of: Mapping[str, int],
        requests: ClassicMessages = CLASSIC_MESSAGES,
    ) -> None:
        super().__init__(rng, member_id="", generation=UNKNOWN_GENERATION)
        self.config: MemberConfig = config
        self.partitions_of = partitions_of
        self.requests: ClassicMessages = requests
        self._joins_because: ErrorAction | None = None
        self._protocol_name = ""
        self._assignments: Any = ()
        self._led_topics: dict[str, int | None] = {}
        self._joined_topics: tuple[str, ...] = ()
        self.is_cooperative = ASSIGNORS[config.assignor].is_cooperative
        self.last_assigned = LastAssigned()
        self._to_take: tuple[TopicPartition, ...] | None = None
        self._leave_reason: str | None = None

    def leave(self, reason: str, *, for_good: bool = False) -> None:  # noqa: ARG002 - it just stops
        """Leave the group with the next poll (dynamic), or stop (static)."""
        self._leave_reason = reason

    def rejoin(self) -> None:
        """Rejoin with the next poll, like a member whose subscription changed.

        A cooperative member that is giving partitions up joins again after that anyway.
        """
        if self._to_take is not None:
            return
        self.state = State.UNJOINED
        self._joins_because = ErrorAction.REJOIN

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to other topics: rejoin with the next poll, or after the present rebalance."""
        self.config = replace(self.config, topics=topics)
        if self.state is State.STABLE:
            self.rejoin()

    # Requests.

    def _next_message(self, now: int) -> Any:
        if self._leave_reason is not None and (self.config.instance_id or not self.member_id):
            self._end(State.LEFT, now)
            return None
        if self.coordinator is None:
            return self.requests.find_coordinator(self)
        return self._group_message(now)

    def _group_message(self, now: int) -> Any:
        if self._to_take is not None and self._revoked_at is not None and now >= self._revoked_at:
            self._take_over(self._to_take, now)
        state = self.state
        is_due = now >= self._heartbeat_at and state is State.STABLE
        if is_due and self._leave_reason is None:
            if self._counts(self._led_topics) == self._led_topics:
                return self.requests.heartbeat(self)  # first: commits must not starve it
            self.rejoin()
            state = self.state
        if self._uncommitted and self._take_owned():
            return self.requests.commit(self, self._committing)
        if self._leave_reason is not None:
            return self.requests.leave(self, self._leave_reason)
        if state is State.UNJOINED:
            return self._join(now)
        if state is State.COMPLETING_REBALANCE:
            return self.requests.sync(self, self._protocol_name, self._assignments)
        return None

    def _join(self, now: int) -> Any:
        """Join, when the partitions are revoked; heartbeat until then."""
        topics = self.config.topics if self.is_cooperative else ()
        kept = tuple(each for each in self.partitions if each[0] in topics)
        if not self._has_revoked(kept, now):
            return self.requests.heartbeat(self) if now >= self._heartbeat_at else None
        self.state = State.PREPARING_REBALANCE
        self.partitions = kept  # others are revoked before the join: its subscription reports that
        self._joined_topics = self.config.topics
        self._overdue_at = now + self.config.rebalance_timeout_ms + JOIN_GRACE_MS
        return self.requests.join(self, JOIN_REASONS[self._joins_because])

    def _has_revoked(self, kept: tuple[TopicPartition, ...], now: int) -> bool:
        """Return whether the application has given up all but these partitions before a join."""
        if kept != self.partitions and self.config.revocation_ms:
            if self._revoked_at is None:
                self._revoked_at = now + self.config.revocation_ms
                self._heartbeat_at = now + self.config.heartbeat_interval_ms
            if now < self._revoked_at:
                return False
        self._revoked_at = None
        return True

    def _counts(self, topics: Iterable[str]) -> dict[str, int | None]:
        """Return how many partitions topics have now; None: there is no such topic."""
        return {topic: self.partitions_of.get(topic) for topic in topics}

    def _has_work(self) -> bool:
        if self._leave_reason is not None:
            return True
        return self.state is not State.STABLE and self._revoked_at is None

    # Answers.

    def _joined(self, response: JoinGroupResponse, now: int) -> None:
        if response.error_code is ErrorCode.member_id_required:
            self.state = State.UNJOINED
            self.member_id = response.member_id
        elif response.error_code:
            self._take_action(response.error_code, now)
            if not self.is_done:
                self._back_off(now)
        else:
            self.state = State.COMPLETING_REBALANCE
            self.member_id = response.member_id
            self.generation = response.generation_id
            self._failures = 0
            self._protocol_name = response.protocol_name or ""
            self._assignments = ()
            self._led_topics = {}
            if response.leader == response.member_id:
                self._led_topics = self._counts(self.requests.subscribed(response))
                if not response.skip_assignment:
                    self._assignments = self.requests.assignments(self, response)
            self._note(now, MemberHistoryKind.JOINED)

    def _synced(self, response: SyncGroupResponse, now: int) -> None:
        if response.error_code:
            self._take_action(response.error_code, now)
            return
        self.state = State.STABLE
        self._failures = 0
        self._assignments = ()
        self._heartbeat_at = now + self.config.heartbeat_interval_ms
        assigned = self.requests.assigned(response)
        if self.config.revocation_ms and not set(assigned).issuperset(self.partitions):
            self._to_take = assigned
            self._revoked_at = now + self.config.revocation_ms
            self._note(now, MemberHistoryKind.HEARTBEAT)
            return
        self._take_over(assigned, now)

    def _take_over(self, assigned: tuple[TopicPartition, ...], now: int) -> None:
        """Have an assignment; join again if partitions were given up for it, or topics changed."""
        gave_up = not set(assigned).issuperset(self.partitions)
        self._to_take = self._revoked_at = None
        self.partitions = assigned
        self.last_assigned = LastAssigned(assigned, self.generation)
        self._note(now, MemberHistoryKind.ASSIGNED)
        if gave_up or self._joined_topics != self.config.topics:
            self.rejoin()

    def _heartbeat_answered(self, response: HeartbeatResponse, now: int) -> None:
        if response.error_code:
            self._take_action(response.error_code, now)
            return
        self._failures = 0
        self._heartbeat_at = self._asked(now) + self.config.heartbeat_interval_ms
        self._note(now, MemberHistoryKind.HEARTBEAT)

    def _left(self, _response: LeaveGroupResponse, now: int) -> None:
        self._end(State.LEFT, now)

    def _unanswered(self, api_key: int, now: int) -> None:
        if api_key == LEAVE_GROUP:
            self._end(State.LEFT, now)
        elif api_key in (JOIN_GROUP, SYNC_GROUP):
            self.state = State.UNJOINED

    # Errors.

    def _take_action(self, error: ErrorCode, now: int) -> None:
        needed = action_for(error)
        if needed is ErrorAction.GIVE_UP:
            self._end(State.FAILED, now, error.name)
        elif needed in (ErrorAction.RETRY, ErrorAction.REDISCOVER):
            self._note(now, MemberHistoryKind.RETRIED, error.name)
            if self.state is State.PREPARING_REBALANCE:
                self.state = State.UNJOINED
            self._back_off(now, needed)
        else:
            self._join_again(needed, error, now)

    def _join_again(self, because: ErrorAction, error: ErrorCode, now: int) -> None:
        if because is ErrorAction.REJOIN and self._revoked_at is not None:
            self._heartbeat_at = now + self.config.heartbeat_interval_ms
            return  # it joins when its partitions are revoked
        self._to_take = self._revoked_at = None
        self.state = State.UNJOINED
        self._joins_because = because
        if because is not ErrorAction.REJOIN:
            self.generation = UNKNOWN_GENERATION
            self.partitions = ()
        if because is ErrorAction.NEW_MEMBER_ID:
            self.member_id = ""
        kind = (
            MemberHistoryKind.REBALANCING
            if because is ErrorAction.REJOIN
            else MemberHistoryKind.LOST
        )
        self._note(now, kind, error.name)

    def _commit_refused(self, error: ErrorCode, now: int) -> None:
        if error in ERROR_ACTIONS:  # the others are about the offsets, not about the member
            self._take_action(error, now)

    RECEIVERS: ClassVar[Receivers] = {
        FIND_COORDINATOR: MemberClient._coordinator_found,
        JOIN_GROUP: _joined,
        SYNC_GROUP: _synced,
        HEARTBEAT: _heartbeat_answered,
        OFFSET_COMMIT: MemberClient._committed,
        LEAVE_GROUP: _left,
    }
