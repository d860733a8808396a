"""A conversation with one shard about consumer groups.

    talk = ConsumerTalk()
    talk.join("A")
    talk.beat("A")

A client keeps its member id, its epoch and its assignment. It gives up partitions when it is told
to, and says so in the heartbeat after that (``beat``).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from tests.protocol.groups.conversation import (
    GROUP,
    NOTHING,
    Client,
    Conversation,
    TopicPartition,
    topic_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass
class ConsumerClient(Client):
    """What a client knows of itself; ``owned`` is what it consumes."""

    epoch: int = 0
    owned: frozenset[TopicPartition] = NOTHING
    has_news: bool = False
    error: ErrorCode = ErrorCode.none


@dataclass
class ConsumerTalk(Conversation[ConsumerClient]):
    """One shard, the consumers that talk to it, and an assignor worker.

    ``in_place``: the group's assignors run on the coordinator.
    """

    _: KW_ONLY
    topics: dict[str, int] = field(default_factory=lambda: {"a": 4, "b": 2})
    in_place: bool = True
    interval_ms: int = 0

    def configs(self) -> dict[str, str]:
        return {
            "group.consumer.assignor.offload.enable": str(not self.in_place).lower(),
            "group.consumer.assignment.interval.ms": str(self.interval_ms),
        }

    def new_client(self, name: str, instance: str | None) -> ConsumerClient:
        return ConsumerClient(name, instance)

    # -- what clients ask ------------------------------------------------------------------------

    def join(
        self,
        name: str,
        topics: Sequence[str] | None = ("a",),
        regex: str | None = None,
        **more: Any,
    ) -> Any:
        """Join, or join again from nothing."""
        client = self.client(name)
        client.member_id = more.pop("member_id", client.member_id or f"m-{client.name}")
        client.owned, client.has_news = NOTHING, False
        return self.heartbeat(
            name,
            member_epoch=0,
            subscribed_topic_names=None if topics is None else tuple(topics),
            subscribed_topic_regex=regex,
            rebalance_timeout=timedelta(milliseconds=more.pop("rebalance_ms", 60_000)),
            topic_partitions=(),
            **more,
        )

    def beat(self, name: str, **more: Any) -> Any:
        """Heartbeat; with the partitions owned if they have changed since the last one."""
        client = self.client(name)
        if client.has_news and "topic_partitions" not in more:
            more["topic_partitions"] = owned(client.owned)
            client.has_news = False
        return self.heartbeat(name, **more)

    def leave(self, name: str, epoch: int = -1) -> Any:
        """Leave for good, or (-2) for a while."""
        answer = self.heartbeat(name, member_epoch=epoch)
        client = self.client(name)
        client.owned, client.member_id, client.epoch = NOTHING, "", 0
        return answer

    def heartbeat(self, name: str, **fields: Any) -> Any:
        """Send a heartbeat with these fields; the client's own values for the others."""
        client = self.client(name)
        version = fields.pop("version", 1)
        asked = {
            "group_id": GROUP,
            "member_id": client.member_id,
            "member_epoch": client.epoch,
            "instance_id": client.instance,
            "topic_partitions": None,
            **fields,
        }
        return self.say(client, ConsumerGroupHeartbeatRequest(**asked), version)

    def learn(self, client: ConsumerClient, answer: Any) -> None:
        client.error = ErrorCode(answer.error_code)
        if client.error is ErrorCode.none:
            client.member_id = answer.member_id or client.member_id
            client.epoch = answer.member_epoch
            if answer.assignment is not None:
                names = {topic_id(name): name for name in self.topics}
                client.owned = frozenset(
                    (names.get(each.topic_id, "?"), index)
                    for each in answer.assignment.topic_partitions
                    for index in each.partitions
                )
                client.has_news = True
        elif client.error in (
            ErrorCode.fenced_member_epoch,
            ErrorCode.unknown_member_id,
            ErrorCode.fenced_instance_id,
        ):
            client.owned, client.epoch = NOTHING, 0

    def describe(self, group: str = GROUP, **more: Any) -> Any:
        """ConsumerGroupDescribe of one group."""
        message = ConsumerGroupDescribeRequest(
            group_ids=(group,), include_authorized_operations=more.get("operations", False)
        )
        return self.ask(message, 1).groups[0]

    # -- what happens ----------------------------------------------------------------------------

    def converge(self, *names: str, rounds: int = 20) -> None:
        """Heartbeat in turn until nothing changes any more."""
        for _ in range(rounds):
            self.work()
            before = [(self.client(name).epoch, self.client(name).owned) for name in names]
            for name in names:
                self.beat(name)
                self.work()
            after = [(self.client(name).epoch, self.client(name).owned) for name in names]
            if before == after and not any(self.client(name).has_news for name in names):
                return
        raise AssertionError(f"no rest after {rounds} rounds: {self.group}")

    def owned(self, *names: str) -> list[int]:
        """How many partitions each of the clients owns."""
        return [len(self.client(name).owned) for name in names]


def owned(partitions: Iterable[TopicPartition]) -> tuple[OwnedTopicPartitions, ...]:
    """Write owned partitions as a heartbeat does."""
    by_topic: dict[str, list[int]] = {}
    for name, index in sorted(partitions):
        by_topic.setdefault(name, []).append(index)
    return tuple(
        OwnedTopicPartitions(topic_id=topic_id(name), partitions=tuple(indexes))
        for name, indexes in by_topic.items()
    )


def check_owned_once(claims: Iterable[tuple[str, Iterable[TopicPartition]]]) -> None:
    """See that no two of these clients own a partition."""
    owners: dict[TopicPartition, str] = {}
    for name, partitions in claims:
        for partition in partitions:
            assert partition not in owners, (partition, name, owners[partition])
            owners[partition] = name
