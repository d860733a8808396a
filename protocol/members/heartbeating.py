"""A member of a group whose coordinator assigns (KIP-848 and what follows it): one request.

The first heartbeat (epoch 0) joins, each answer may bring a new epoch and assignment, the next
heartbeat tells what is owned, and epoch -1 (-2 for a static member that will be back) leaves. A
member revokes and takes over at once.

What a kind of group adds is in its subclass and in the requests that it is given: its API, its
settings, the form of an assignment, and what its errors ask for.
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
"""A static member leaves so: its partitions wait for it until its session ends."""


NOTHING_NEW: Final = HeartbeatFields(joins=False, everything=False, topics=None, owned=False)
LEAVES: Final = HeartbeatFields(
    joins=False, everything=False, topics=None, owned=False, leaves=True
)


class HeartbeatRequests(MemberRequests, Protocol):
    """How a kind of member writes its requests and reads its answers.

    ``nothing`` is the assignment of a member that owns nothing; assignments are compared by ``==``.
    """

    nothing: Any

    def heartbeat(self, member: Any, tells: HeartbeatFields) -> Any:
        """Say that the member lives, and what has changed."""

    def leave(self, member: Any, epoch: int) -> Any:
        """Leave under an epoch that says for how long."""

    def interval_ms(self, answer: Any) -> int:
        """Read how often the coordinator wants heartbeats."""

    def assigned(self, answer: Any) -> Any:
        """Read what an answer assigns; None: nothing new."""

    def partitions(self, member: Any, owned: Any) -> tuple[TopicPartition, ...]:
        """Name partitions that :meth:`assigned` read."""


class HeartbeatingMember(MemberClient):
    """One member's conversation with its coordinator; ``generation`` is the member epoch.

    STABLE: the member is in, and ``owned`` is what it was last assigned.
    """

    HEARTBEAT_API: ClassVar[int]
    ERROR_ACTIONS: ClassVar[Mapping[ErrorCode, ErrorAction]]
    """What errors ask for; the others, what Kafka says of retrying them."""

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

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to other topics with the next heartbeat, which is due at once."""
        self.topics = topics
        self._tells_topics = True
        self._heartbeat_at = 0

    def leave(self, reason: str = "", *, for_good: bool = False) -> None:  # noqa: ARG002 - not told
        """Leave the group with the next poll; a static member says that it will be back.

        ``for_good``: it does not. The request carries no ``reason``.
        """
        self._leaves = True
        self._is_for_good = for_good

    @property
    def has_news(self) -> bool:
        """Whether the next heartbeat tells topics or what is owned."""
        return self._tells_topics or self._tells_owned

    @property
    def tells_topics(self) -> bool:
        """Whether the next heartbeat tells other topics."""
        return self._tells_topics

    # What to send.

    @abstractmethod
    def _told_topics(self) -> tuple[str, ...] | None:
        """Give the topics that a heartbeat names which tells the subscription."""

    def _next_message(self, now: int) -> Any:
        if self._leaves and self.generation == JOIN_EPOCH:
            self._end(State.LEFT, now)
            return None
        if self.coordinator is None:
            return self.requests.find_coordinator(self)
        if self._leaves:
            return self._leaving()
        if now >= self._heartbeat_at:  # before commits: refused ones must not starve it
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

    # What came back.

    @property
    @abstractmethod
    def _interval_ms(self) -> int | None:
        """The interval of heartbeats; None: as the coordinator wants them."""

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
        self._heartbeat_at = now + interval_ms
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
        """Revoke and take over at once, and tell the coordinator so if anything changed."""
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

    # What an error leads to.

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
            self.generation = JOIN_EPOCH
            self.partitions, self.owned = (), self.requests.nothing
            self._heartbeat_at = now
            self._note(now, MemberHistoryKind.LOST, error.name)

    def _commit_refused(self, error: ErrorCode, now: int) -> None:
        if error is ErrorCode.stale_member_epoch:
            self._heartbeat_at = now  # its answer brings the new epoch
        elif error in self.ERROR_ACTIONS:
            self._take_action(error, now)
