"""A conversation with one shard about consumer groups: named clients, a clock moved by hand.

    talk = ConsumerTalk()
    talk.join("A")
    talk.beat("A")

A client keeps what it was told (member id, epoch, assignment) and uses it in its next heartbeat. It
gives up partitions when it is told to, and says so in the heartbeat after that (``acknowledge``).
Runs of the assignor are done by an executor when the test lets them (``work``), or at once.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from protocol.assignors.executor import Executor
from protocol.config import Configs
from protocol.groups import invariants
from protocol.groups.effects import (
    CancelAssignment,
    ClientInfo,
    Elected,
    Request,
    Resigned,
    TimersDue,
)
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topic, Topics
from protocol.records import decode, encode
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from protocol.groups.effects import Event, Reply, Result, Task
    from protocol.groups.facts import Fact
    from protocol.records import Record

GROUP = "g"
START_MS = 1_000_000
NOTHING: frozenset[tuple[str, int]] = frozenset()
TopicPartition = tuple[str, int]


def topic_id(name: str) -> UUID:
    """Give a topic's id: that of its name, always the same."""
    return UUID(bytes=name.encode().ljust(16, b"."))


def image(topics: Mapping[str, int], racks: Mapping[int, str] | None = None) -> Topics:
    """Make an image of topics from their partition counts."""
    made = (Topic(topic_id(name), name, count) for name, count in topics.items())
    return Topics(made, racks or {})


@dataclass
class Named:
    """What a client knows of itself; ``owned`` is what it consumes."""

    name: str
    instance: str | None = None
    member_id: str = ""
    epoch: int = 0
    owned: frozenset[TopicPartition] = NOTHING
    has_news: bool = False
    error: ErrorCode = ErrorCode.none


@dataclass
class ConsumerTalk:
    """One shard, the clients that talk to it, and an assignor worker.

    ``in_place``: the group's assignors run on the coordinator. Otherwise tasks wait for ``work``,
    unless ``is_prompt``.
    """

    overrides: Mapping[str, str] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=lambda: {"a": 4, "b": 2})
    in_place: bool = True
    is_prompt: bool = False
    interval_ms: int = 0
    seed: int = 0
    now: int = START_MS
    clients: dict[str, Named] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    tasks: deque[Task] = field(default_factory=deque)
    replies: dict[int, Reply] = field(default_factory=dict)
    result: Result | None = None
    tickets: int = 0

    def __post_init__(self) -> None:
        self.executor = Executor(lambda: 0.0)
        self.shard = self._new_shard()
        self.handle(Elected())

    def _new_shard(self) -> GroupShard:
        configs = Configs(
            {
                "group.consumer.assignor.offload.enable": str(not self.in_place).lower(),
                "group.consumer.assignment.interval.ms": str(self.interval_ms),
                **self.overrides,
            }
        )
        self.seed += 1
        return GroupShard(configs, image(self.topics), random.Random(self.seed))

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
        message = ConsumerGroupHeartbeatRequest(**asked)
        answer = self.ask(message, version, client.name)
        self._learn(client, answer)
        return answer

    def _learn(self, client: Named, answer: Any) -> None:
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

    def describe(self, group: str = GROUP) -> Any:
        """ConsumerGroupDescribe of one group."""
        message = ConsumerGroupDescribeRequest(
            group_ids=(group,), include_authorized_operations=False
        )
        return self.ask(message, 1, "admin").groups[0]

    def ask(self, message: Any, version: int, client: str = "admin") -> Any:
        """Send any request; its answer."""
        self.tickets += 1
        request = Request(
            ticket=self.tickets,
            api_key=message.__api_key__,
            api_version=version,
            client=ClientInfo(client, "/127.0.0.1"),
            message=message,
        )
        self.handle(request)
        return self.replies[self.tickets].message

    # -- what happens ----------------------------------------------------------------------------

    def handle(self, event: Event) -> Result:
        """Give the shard an event and take in what it led to."""
        result = self.result = self.shard.handle(event, self.now)
        self.records += result.records
        self.facts += result.facts
        self.tasks += result.tasks
        for reply in result.replies:
            assert reply.ticket not in self.replies, "answered twice"
            self.replies[reply.ticket] = reply
        broken = invariants.broken(self.context)
        assert not broken, broken
        if self.is_prompt:
            self.work()
        return result

    def work(self, most: int = 1_000) -> None:
        """Let the worker do what waits."""
        while self.tasks and most:
            task = self.tasks.popleft()
            most -= 1
            if not isinstance(task, CancelAssignment):
                self.handle(self.executor.run(task))
        self.settle()

    def settle(self) -> None:
        """Run what is due at this very moment."""
        for _ in range(10_000):
            deadline = self.shard.next_deadline()
            if deadline is None or deadline > self.now:
                return
            self.handle(TimersDue())
        raise AssertionError("the shard never comes to rest")

    def advance(self, milliseconds: int) -> None:
        """Let time pass; timers run when they are due."""
        end = self.now + milliseconds
        while (deadline := self.shard.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.handle(TimersDue())
        self.now = end

    def set_topics(self, **counts: int) -> None:
        """Change the topics that exist."""
        self.topics = dict(counts)
        self.shard.topics = image(self.topics)
        self.settle()

    def failover(self, *, from_compacted: bool = False) -> None:
        """Let another replica lead: it knows the records and nothing else."""
        self.handle(Resigned())
        rows = [encode(record) for record in self.records]
        if from_compacted:
            rows = [(key, value) for key, value in sorted(dict(rows).items()) if value is not None]
        self.tasks.clear()
        self.shard = self._new_shard()
        for key, value in rows:
            self.shard.replay(decode(key, value))
        self.handle(Elected())

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

    # -- what can be seen ------------------------------------------------------------------------

    @property
    def context(self) -> Any:
        """The shard's inside."""
        return self.shard._context

    @property
    def group(self) -> Any:
        """The group's hard state."""
        return self.context.groups[GROUP]

    def client(self, name: str) -> Named:
        """The client of that name; ``A=i`` on first use makes it a static member."""
        bare, _, instance = name.partition("=")
        return self.clients.setdefault(bare, Named(bare, instance or None))

    def owned(self, *names: str) -> list[int]:
        """How many partitions each of the clients owns."""
        return [len(self.client(name).owned) for name in names]

    def last_reply(self) -> Reply:
        """The whole reply to the last request."""
        return self.replies[self.tickets]


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
