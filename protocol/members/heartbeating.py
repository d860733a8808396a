"""A member of a group with server-side assignment (KIP-848 and later protocols): one request.

The first heartbeat (epoch 0) joins. Each answer may bring a new epoch and assignment, and the next
heartbeat reports the owned partitions. Epoch -1 leaves (-2: a static member that will return). A
member takes over partitions at once, and revokes them at once unless its settings say how long
that takes.

Each kind of group adds its parts in a subclass and in the requests that it is given: its API, its
settings, the form of an assignment, and the actions for its errors.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from protocol.members.client import MemberClient, State
from protocol.members.error_actions import ErrorAction, action_for
from protocol.members.history import MemberHistoryKind
from protocol.members.requests import HeartbeatFields, MemberRequests
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from protocol.wire.embedded import TopicPartition


JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
"""A static member leaves with this epoch: its partitions are kept until its session ends."""


NOTHING_NEW: Final = HeartbeatFields(joins=False, everything=False, topics=None, owned=False)
LEAVES: Final = HeartbeatFields(
    joins=False, everything=False, topics=None, owned=False, leaves=True
)


class HeartbeatRequests(MemberRequests, Protocol):
    """Encodes the requests of a kind of member, and reads its answers.

    ``nothing`` is the assignment of a member that owns nothing; assignments are compared by ``==``.
    """

    nothing: Any

    def heartbeat(self, member: Any, tells: HeartbeatFields) -> Any:
        """Keep the member's session alive and report changes."""

    def leave(self, member: Any, epoch: int) -> Any:
        """Leave with an epoch that says for how long."""

    def interval_ms(self, answer: Any) -> int:
        """Return the coordinator's heartbeat interval."""

    def assigned(self, answer: Any) -> Any:
        """Return the assignment in an answer; None: nothing new."""

    def partitions(self, member: Any, owned: Any) -> tuple[TopicPartition, ...]:
        """Return the names of partitions that :meth:`assigned` returned."""


class HeartbeatingMember(MemberClient):
    """One member's conversation with its coordinator; ``generation`` is the member epoch.

    STABLE: the member has joined, and ``owned`` is its last assignment.
    """

    HEARTBEAT_API: ClassVar[int]
    ERROR_ACTIONS: ClassVar[Mapping[ErrorCode, ErrorAction]]
    """Actions for errors; for other errors, Kafka's retriable flag decides."""

    requests: HeartbeatRequests
    topics: tuple[str, ...]

    def __init__(self, rng: random.Random, member_id: str, requests: HeartbeatRequests) -> None:
        super().__init__(rng, member_id, JOIN_EPOCH)
        self.requests = requests
        self.owned: Any = requests.nothing
        self._told = NOTHING_NEW
        self._tells_all = True
        self._tells_owned = False
        self._tells_topics = False
        self._leaves = False
        self._is_for_good = False
        self._to_take: Any = requests.nothing

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to other topics with the next heartbeat, which is due at once."""
        self.topics = topics
        self._tells_topics = True
        self._heartbeat_at = 0

    def leave(self, reason: str = "", *, for_good: bool = False) -> None:  # noqa: ARG002 - not told
        """Leave the group with the next poll; a static member announces that it will return.

        With ``for_good`` it does not. The request carries no ``reason``.
        """
        self._leaves = True
        self._is_for_good = for_good

    @property
    def has_news(self) -> bool:
        """Whether the next heartbeat reports topics or owned partitions."""
        return self._tells_topics or self._tells_owned

    @property
    def tells_topics(self) -> bool:
        """Whether the next heartbeat reports other topics."""
        return self._tells_topics

    # Requests.

    @abstractmethod
    def _told_topics(self) -> tuple[str, ...] | None:
        """Return the topics for a heartbeat that reports the subscription."""

    def _next_message(self, now: int) -> Any:
        if self._leaves and self.generation == JOIN_EPOCH:
            self._end(State.LEFT, now)
            return None
        if self.coordinator is None:
            return self.requests.find_coordinator(self)
        if self._leaves:
            return self._leaving()
        if self._revoked_at is not None and now >= self._revoked_at:
            self._take_over(self._to_take, now)
        if now >= self._heartbeat_at:  # first: refused commits must not starve heartbeats
            return self._heartbeat()
        if self._uncommitted and self._take_owned():
            return self.requests.commit(self, self._committing)
        return None

    def _heartbeat(self) -> Any:
        everything = self._tells_all
        if everything or self._tells_owned or self._tells_topics:
            self._told = HeartbeatFields(
                joins=self.generation == JOIN_EPOCH,
                everything=everything,
                topics=self._told_topics() if everything or self._tells_topics else None,
                owned=everything or self._tells_owned,
            )
        else:
            self._told = NOTHING_NEW
        return self.requests.heartbeat(self, self._told)

    def _leaving(self) -> Any:
        self._told = LEAVES
        comes_back = self.config.instance_id is not None and not self._is_for_good
        return self.requests.leave(self, LEAVE_FOR_A_WHILE_EPOCH if comes_back else LEAVE_EPOCH)

    def _has_work(self) -> bool:
        return self._leaves

    # Answers.

    @property
    @abstractmethod
    def _interval_ms(self) -> int | None:
        """The heartbeat interval; None: as the coordinator wants."""

    @property
    def _revocation_ms(self) -> int:
        """How long the application takes to give partitions up."""
        return 0

    def _heartbeat_answered(self, response: Any, now: int) -> None:
        told = self._told
        if told.leaves:
            self._end(State.LEFT, now)
            return
        if response.error_code:
            self._take_action(response.error_code, now)
            return
        joins = self.generation == JOIN_EPOCH
        self._failures = 0
        self._tells_all = self._tells_owned = False
        if told.topics == self.topics:
            self._tells_topics = False
        self.generation = response.member_epoch
        self.state = State.STABLE
        interval_ms = self._interval_ms
        if interval_ms is None:
            interval_ms = self.requests.interval_ms(response)
        self._heartbeat_at = self._asked(now) + interval_ms
        if joins:
            self._note(now, MemberHistoryKind.JOINED)
        owned = self.requests.assigned(response)
        if owned is not None:
            self._assigned(owned, now)
        else:
            self._note(now, MemberHistoryKind.HEARTBEAT)
        if self._tells_topics:
            self._heartbeat_at = now

    def _assigned(self, owned: Any, now: int) -> None:
        """Revoke partitions, which may take a while, and then take over the others."""
        partitions = self.requests.partitions(self, owned)
        if not self._revocation_ms or set(partitions).issuperset(self.partitions):
            self._take_over(owned, now)
            return
        self._to_take = owned
        if self._revoked_at is None:
            self._revoked_at = now + self._revocation_ms
        self._note(now, MemberHistoryKind.HEARTBEAT)

    def _take_over(self, owned: Any, now: int) -> None:
        """Have an assignment; report it to the coordinator if anything changed."""
        self._revoked_at = None
        partitions = self.requests.partitions(self, owned)
        if partitions != self.partitions or owned != self.owned:
            self._tells_owned = True
            self._heartbeat_at = now
        self.owned, self.partitions = owned, partitions
        self._note(now, MemberHistoryKind.ASSIGNED)

    def _unanswered(self, api_key: int, now: int) -> None:
        if self._leaves and api_key == self.HEARTBEAT_API:
            self._end(State.LEFT, now)

    def _reconnects(self, now: int) -> None:
        self._tells_all = True
        super()._reconnects(now)

    # Errors.

    def _take_action(self, error: ErrorCode, now: int) -> None:
        needed = self.ERROR_ACTIONS.get(error) or action_for(error)
        self._tells_all = True
        if needed is ErrorAction.GIVE_UP:
            self._end(State.FAILED, now, error.name)
        elif needed in (ErrorAction.RETRY, ErrorAction.REDISCOVER):
            self._note(now, MemberHistoryKind.RETRIED, error.name)
            self._heartbeat_at = now
            self._back_off(now, needed)
        else:
            self.state = State.UNJOINED
            self._revoked_at = None
            self.generation = JOIN_EPOCH
            self.partitions, self.owned = (), self.requests.nothing
            self._heartbeat_at = now
            self._note(now, MemberHistoryKind.LOST, error.name)

    def _commit_refused(self, error: ErrorCode, now: int) -> None:
        if error is ErrorCode.stale_member_epoch:
            self._heartbeat_at = now  # its answer brings the new epoch
        elif error in self.ERROR_ACTIONS:
            self._take_action(error, now)
