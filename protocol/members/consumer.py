"""A member of a consumer group (KIP-848), dynamic or static, without sockets and without a clock.

One request does everything: the first heartbeat (epoch 0) joins, each answer may bring a new epoch
and assignment, the next heartbeat tells what is owned, and epoch -1 (-2 for a static member that
will be back) leaves. A member revokes and takes over at once.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from protocol.members import requests
from protocol.members.conversation import Conversation, Receivers, State
from protocol.members.cures import CONSUMER_CURES, Cure, cure
from protocol.members.history import Kind
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OwnedTopicPartitions,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from kio.static.protocol import RequestPayload


JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
"""A static member leaves so: its partitions wait for it until its session ends."""

UNCHANGED: Final = timedelta(milliseconds=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberConfig:
    """A member's settings under Kafka's names; ``instance_id`` makes it static.

    It subscribes to ``topics``, or to those that match ``topic_regex``. ``server_assignor`` None
    leaves the choice to the group; ``heartbeat_interval_ms`` None follows the coordinator's word.
    """

    group_id: str
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    client_id: str = "member"
    instance_id: str | None = None
    rack_id: str | None = None
    server_assignor: str | None = None
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


class ConsumerMember(Conversation):
    """One member's conversation with its coordinator.

    ``topic_names`` tells what topic an id means; its driver may replace it. ``generation`` is the
    member epoch. STABLE: the member is in, and what it owns is what it was last assigned.
    """

    def __init__(
        self,
        config: ConsumerMemberConfig,
        rng: random.Random,
        topic_names: Mapping[uuid.UUID, str],
    ) -> None:
        member_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        super().__init__(rng, member_id, JOIN_EPOCH)
        self.config: ConsumerMemberConfig = config
        self.topic_names = topic_names
        self.topics = config.topics
        self._owned: tuple[OwnedTopicPartitions, ...] = ()
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

    # What to send.

    def _next_message(self, now: int) -> RequestPayload | None:
        if self._leaves and self.generation == JOIN_EPOCH:
            self._end(State.LEFT, now)
            return None
        if self.coordinator is None:
            return requests.find_coordinator(self)
        if self._leaves:
            return self._leaving()
        if now >= self._heartbeat_at:  # before commits: refused ones must not starve it
            return self._heartbeat()
        if self._uncommitted and self._take_owned():
            return requests.commit(self, self._committing)
        return None

    def _heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """Say what has changed since the last answered heartbeat: mostly nothing."""
        config, tells_all = self.config, self._tells_all
        names = self.topics if config.topic_regex is None or self.topics else None
        regex = config.topic_regex
        if self.generation == JOIN_EPOCH and config.instance_id is not None:
            # A predecessor's subscription would stay in force as far as nothing is said of it.
            names, regex = self.topics, regex or ""
        owned = self._owned if tells_all or self._tells_owned else None
        rebalance_timeout = timedelta(milliseconds=config.rebalance_timeout_ms)
        return ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=config.instance_id,
            rack_id=config.rack_id if tells_all else None,
            rebalance_timeout=rebalance_timeout if tells_all else UNCHANGED,
            subscribed_topic_names=names if tells_all or self._tells_topics else None,
            subscribed_topic_regex=regex if tells_all else None,
            server_assignor=config.server_assignor if tells_all else None,
            topic_partitions=() if self.generation == JOIN_EPOCH else owned,
        )

    def _leaving(self) -> ConsumerGroupHeartbeatRequest:
        comes_back = self.config.instance_id is not None and not self._is_for_good
        return ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_FOR_A_WHILE_EPOCH if comes_back else LEAVE_EPOCH,
            instance_id=self.config.instance_id,
            topic_partitions=None,
        )

    def _has_work(self) -> bool:
        return self._leaves

    # What came back.

    def _heartbeat_answered(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        now: int,
    ) -> None:
        if request.member_epoch < JOIN_EPOCH:
            self._end(State.LEFT, now)
            return
        if response.error_code:
            self._cure(response.error_code, now)
            return
        joins = self.generation == JOIN_EPOCH
        self._failures = 0
        self._tells_all = self._tells_owned = False
        if request.subscribed_topic_names == self.topics:
            self._tells_topics = False
        self.generation = response.member_epoch
        self.state = State.STABLE
        told_ms = round(response.heartbeat_interval.total_seconds() * 1000)
        interval_ms = self.config.heartbeat_interval_ms
        self._heartbeat_at = now + (told_ms if interval_ms is None else interval_ms)
        if joins:
            self._note(now, Kind.JOINED)
        if response.assignment is not None:
            self._assigned(response.assignment.topic_partitions, now)
        else:
            self._note(now, Kind.HEARTBEAT)
        if self._tells_topics:
            self._heartbeat_at = now

    def _assigned(self, assigned: tuple[Any, ...], now: int) -> None:
        """Revoke and take over at once, and tell the coordinator so if anything changed."""
        owned = tuple(
            OwnedTopicPartitions(topic_id=each.topic_id, partitions=tuple(each.partitions))
            for each in assigned
        )
        partitions = tuple(
            sorted(
                (self._topic_name(each.topic_id), partition)
                for each in owned
                for partition in each.partitions
            )
        )
        if partitions != self.partitions or owned != self._owned:
            self._tells_owned = True
            self._heartbeat_at = now
        self._owned, self.partitions = owned, partitions
        self._note(now, Kind.ASSIGNED)

    def _topic_name(self, topic_id: uuid.UUID | None) -> str:
        return self.topic_names.get(topic_id or uuid.UUID(int=0)) or str(topic_id)

    def _unanswered(self, message: RequestPayload, now: int) -> None:
        if self._leaves and isinstance(message, ConsumerGroupHeartbeatRequest):
            self._end(State.LEFT, now)

    def _reconnects(self, now: int) -> None:
        self._tells_all = True
        super()._reconnects(now)

    # What an error leads to.

    def _cure(self, error: ErrorCode, now: int) -> None:
        needed = CONSUMER_CURES.get(error) or cure(error)
        self._tells_all = True
        if needed is Cure.GIVE_UP:
            self._end(State.FAILED, now, error.name)
        elif needed in (Cure.RETRY, Cure.REDISCOVER):
            self._note(now, Kind.RETRIED, error.name)
            self._heartbeat_at = now
            self._back_off(now, needed)
        else:
            self.state = State.UNJOINED
            self.generation = JOIN_EPOCH
            self.partitions, self._owned = (), ()
            self._heartbeat_at = now
            self._note(now, Kind.LOST, error.name)

    def _commit_refused(self, error: ErrorCode, now: int) -> None:
        if error is ErrorCode.stale_member_epoch:
            self._heartbeat_at = now  # its answer brings the new epoch
        elif error in CONSUMER_CURES:
            self._cure(error, now)

    RECEIVERS: ClassVar[Receivers] = {
        FindCoordinatorRequest: Conversation._coordinator_found,
        ConsumerGroupHeartbeatRequest: _heartbeat_answered,
        OffsetCommitRequest: Conversation._committed,
    }
