"""The part of a member's conversation with the coordinator that all kinds of members share.

The driver (a test, the simulator, the load engine) calls ``poll(now)`` for the request to send,
passes each answer to ``receive``, or its absence to ``lost``, and polls again at
``next_deadline()``. At most one request is in flight. No sockets and no clock: times are the
driver's, in milliseconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from protocol.members.error_actions import ErrorAction
from protocol.members.history import MemberHistoryEvent, MemberHistoryKind
from protocol.members.requests import FIND_COORDINATOR, OFFSET_COMMIT, AnyConfig

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from protocol.members.requests import MemberRequests
    from protocol.wire.embedded import TopicPartition
    from protocol.wire.errors import ErrorCode
    from protocol.wire.messages import FindCoordinatorResponse, OffsetCommitResponse


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """The address of a coordinator."""

    node_id: int
    host: str
    port: int


@dataclass(slots=True, eq=False)
class Outgoing:
    """A request to send: to the coordinator, or (``to`` None) to any node of the cluster.

    ``message`` comes from the member's ``requests``: a message, or a frame.
    """

    message: Any
    to: BrokerNode | None


class State(StrEnum):
    """The state of a member.

    UNJOINED: joins as soon as it can. PREPARING_REBALANCE: its JoinGroup is in flight.
    COMPLETING_REBALANCE: it syncs. STABLE: it heartbeats. LEFT and FAILED: it is done.
    """

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing-rebalance"
    COMPLETING_REBALANCE = "completing-rebalance"
    STABLE = "stable"
    LEFT = "left"
    FAILED = "failed"


Receivers: TypeAlias = "Mapping[int, Callable[[Any, Any, int], None]]"
"""API key to the method that handles an answer, with the time."""


class RetrySettings(AnyConfig, Protocol):
    """The settings of a conversation, under Kafka's names."""

    @property
    def request_timeout_ms(self) -> int:
        """How long to wait for an answer."""

    @property
    def retry_backoff_ms(self) -> int:
        """The pause after the first failure in a row; it doubles with each further one."""

    @property
    def retry_backoff_max_ms(self) -> int:
        """The longest pause."""


class MemberClient(ABC):
    """One member's conversation with its coordinator; subclasses define its requests.

    ``generation`` is a consumer group member's epoch. ``partitions`` are the member's own, sorted.
    ``keeps_history`` may be set to False where thousands of members need none. A member whose
    settings have ``revocation_ms`` takes so long to give partitions up; it heartbeats meanwhile.
    """

    RECEIVERS: ClassVar[Receivers]

    config: RetrySettings
    requests: MemberRequests
    is_cooperative: bool = False
    """Whether it is a classic member that keeps in a rebalance what it does not lose (KIP-429)."""

    def __init__(self, rng: random.Random, member_id: str, generation: int) -> None:
        self.state = State.UNJOINED
        self.member_id = member_id
        self.generation = generation
        self.partitions: tuple[TopicPartition, ...] = ()
        self.coordinator: BrokerNode | None = None
        self.history: list[MemberHistoryEvent] = []
        self.keeps_history = True
        self._rng = rng
        self._is_done = False
        self._in_flight: Outgoing | None = None
        self._asked_at: int | None = None
        self._overdue_at = 0
        self._retry_at = 0
        self._failures = 0
        self._heartbeat_at = 0
        self._revoked_at: int | None = None
        self._uncommitted: dict[TopicPartition, int] = {}
        self._committing: dict[TopicPartition, int] = {}

    @property
    def is_done(self) -> bool:
        """Whether the member has left or failed permanently."""
        return self._is_done

    @property
    def open_commits(self) -> tuple[dict[TopicPartition, int], ...]:
        """The offsets of commits without an answer: the one in flight, and those that wait."""
        in_flight = self._in_flight
        is_sent = in_flight is not None and in_flight.message.__api_key__ == OFFSET_COMMIT
        found = (self._committing if is_sent else {}, self._uncommitted)
        return tuple(dict(each) for each in found if each)

    # Called by the driver.

    def poll(self, now: int) -> list[Outgoing]:
        """Return what to send now: one request or none."""
        if self._in_flight is not None:
            if now < self._overdue_at:
                return []
            self.lost(self._in_flight, now)
        if self._is_done or now < self._retry_at:
            return []
        self._overdue_at = now + self.config.request_timeout_ms
        message = self._next_message(now)
        if message is None:
            return []
        to = None if message.__api_key__ == FIND_COORDINATOR else self.coordinator
        self._in_flight = Outgoing(message, to)
        self._asked_at = now
        return [self._in_flight]

    def receive(self, request: Outgoing, response: Any, now: int) -> None:
        """Handle the answer to ``request``; ignore an answer that came too late."""
        if request is self._in_flight:
            self._in_flight = None
            self.RECEIVERS[request.message.__api_key__](self, response, now)
            self._asked_at = None

    def lost(self, request: Outgoing, now: int) -> None:
        """Note that ``request`` will get no answer: its connection is gone."""
        if request is not self._in_flight:
            return
        self._in_flight = None
        self._note(now, MemberHistoryKind.DISCONNECTED)
        if request.message.__api_key__ == OFFSET_COMMIT:
            self._note(now, MemberHistoryKind.COMMIT_FAILED, "disconnected", self._committing)
        else:
            self._unanswered(request.message.__api_key__, now)
        self._asked_at = None
        self._reconnects(now)
        self._back_off(now, ErrorAction.REDISCOVER)

    def disconnected(self, now: int) -> None:
        """Note that the idle connection to the coordinator is gone: find the coordinator at once.

        A heartbeat follows as soon as it is found, since the group may have moved.
        """
        if self._in_flight is None and self.coordinator is not None and not self.is_done:
            self._note(now, MemberHistoryKind.DISCONNECTED)
            self._reconnects(now)
            self.coordinator = None

    def next_deadline(self) -> int | None:
        """Return when to poll next unless something happens first; None once the member is done."""
        if self._is_done:
            return None
        if self._in_flight is not None:
            return self._overdue_at
        has_work = self.coordinator is None or self._uncommitted or self._has_work()
        if has_work:
            return self._retry_at
        revoked_at = self._heartbeat_at if self._revoked_at is None else self._revoked_at
        return max(self._retry_at, min(self._heartbeat_at, revoked_at))

    def heartbeat_now(self, now: int) -> None:
        """Heartbeat with the next poll, if the member is in its group."""
        self._heartbeat_at = now

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit ``offsets`` with the next poll, for those partitions that are still owned then."""
        self._uncommitted.update(offsets)

    # Defined by each protocol.

    @abstractmethod
    def _next_message(self, now: int) -> Any:
        """Return the request to send now; None: nothing yet.

        It may extend the time after which the answer is overdue.
        """

    @abstractmethod
    def _has_work(self) -> bool:
        """Return whether there is a request to send before the next heartbeat is due."""

    @abstractmethod
    def _unanswered(self, api_key: int, now: int) -> None:
        """Note that a request to this API, other than a commit, will get no answer."""

    @abstractmethod
    def _commit_refused(self, error: ErrorCode, now: int) -> None:
        """Handle a commit's refusal that concerns the member."""

    @abstractmethod
    def _take_action(self, error: ErrorCode, now: int) -> None:
        """Take the action for an error."""

    def _reconnects(self, now: int) -> None:
        """Prepare for another connection: the next heartbeat is due at once."""
        self._heartbeat_at = now

    # Common to both protocols.

    def _coordinator_found(self, response: FindCoordinatorResponse, now: int) -> None:
        found = response.coordinators[0]
        if found.error_code:
            self._take_action(found.error_code, now)
        else:
            self.coordinator = BrokerNode(found.node_id, found.host, found.port)

    def _asked(self, now: int) -> int:
        """Return when the request was sent whose answer came now: heartbeats are due from then."""
        return now if self._asked_at is None else self._asked_at

    def _take_owned(self) -> bool:
        """Take the offsets of owned partitions out of the queue; drop the others."""
        self._committing = {
            partition: self._uncommitted[partition]
            for partition in self.partitions
            if partition in self._uncommitted
        }
        self._uncommitted.clear()
        return bool(self._committing)

    def _committed(self, response: OffsetCommitResponse, now: int) -> None:
        errors = (
            partition.error_code for topic in response.topics for partition in topic.partitions
        )
        error = next(filter(None, errors), None)
        if error is None:
            self._failures = 0
            self._note(now, MemberHistoryKind.COMMITTED, offsets=self._committing)
            return
        self._note(now, MemberHistoryKind.COMMIT_FAILED, error.name, self._committing)
        self._commit_refused(error, now)

    def _back_off(self, now: int, needed: ErrorAction = ErrorAction.RETRY) -> None:
        """Back off exponentially with each failure in a row, plus or minus a fifth."""
        config = self.config
        delay_ms = min(config.retry_backoff_ms << self._failures, config.retry_backoff_max_ms)
        self._failures = min(self._failures + 1, 10)
        self._retry_at = now + round(delay_ms * self._rng.uniform(0.8, 1.2))
        if needed is ErrorAction.REDISCOVER:
            self.coordinator = None

    def _end(self, state: State, now: int, error: str | None = None) -> None:
        self.state = state
        self._is_done = True
        self._uncommitted.clear()
        self._note(
            now, MemberHistoryKind.LEFT if state is State.LEFT else MemberHistoryKind.FAILED, error
        )

    def _note(
        self,
        now: int,
        kind: MemberHistoryKind,
        error: str | None = None,
        offsets: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        if not self.keeps_history:
            return
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
                asked_ms=self._asked_at,
            )
        )
