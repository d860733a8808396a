"""A confluent-kafka consumer that remembers what it was given and what it was told to give up."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients import wire
from tests.waiting import LONG_SESSION_MS, SESSION_MS, WITHIN_S, patient, until

T = TypeVar("T")
Partition = tuple[str, int]

POLL_S = 0.02
ADMIN_S = patient(20)
# librdkafka writes to stderr when a server goes away, which the tests do on purpose.
QUIET = {"log_level": 0}
MOVED = {*wire.NOT_NOW, KafkaError._TRANSPORT, KafkaError._WAIT_COORD}
"""What a call may end with while its group's coordinator is changing.

A server that dies closes its connections: an administrator's request on one of them ends with
_TRANSPORT, and so does a commit that librdkafka has sent again in vain. A commit that waits for a
coordinator ends with _WAIT_COORD. No call may end with _TIMED_OUT: nobody answered in its time.
"""

CLASSIC = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200}
STATIC = {**CLASSIC, "session.timeout.ms": LONG_SESSION_MS}


class Member:
    """One consumer of a group; :meth:`poll` is what makes it live."""

    def __init__(
        self, bootstrap: str, group_id: str, topics: Sequence[str], **config: object
    ) -> None:
        """Subscribe. Config names are librdkafka's with underscores for dots, or ``on_commit``.

        With the consumer protocol, the coordinator sets the session timeout.
        """
        by_coordinator = config.get("group_protocol") == "consumer"
        classic = STATIC if "group_instance_id" in config else CLASSIC
        self.assigned: set[Partition] = set()
        self.given: list[set[Partition]] = []
        self.revoked: list[set[Partition]] = []
        self.errors: list[KafkaError] = []
        settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            **({} if by_coordinator else classic),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **QUIET,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
            **{k if k == "on_commit" else k.replace("_", "."): v for k, v in config.items()},
        }
        cooperative = settings.get("partition.assignment.strategy") == "cooperative-sticky"
        self._incremental = cooperative or by_coordinator
        self.consumer = Consumer(settings)
        self.subscribe(topics)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics, and to no other ones any more."""
        self.consumer.subscribe(
            list(topics), on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
        )

    def _assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        new = _pairs(partitions)
        self.given.append(new)
        self.assigned = self.assigned | new if self._incremental else new

    def _revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        gone = _pairs(partitions)
        self.revoked.append(gone)
        self.assigned = self.assigned - gone if self._incremental else set()

    def _lose(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._revoke(_, partitions)

    def poll(self) -> None:
        """Serve the client: rebalance callbacks run in here."""
        try:
            message = self.consumer.poll(POLL_S)
        except KafkaException as error:
            self.errors.append(error.args[0])
            return
        if message is not None and message.error() is not None:
            self.errors.append(message.error())

    def close(self) -> None:
        """Close; a dynamic member leaves its group, a static one does not."""
        with suppress(RuntimeError):
            self.consumer.close()


def quiet_consumer(
    bootstrap: str, group_id: str, client_id: str, protocol: str, topic: str, **classic: int
) -> Consumer:
    """Subscribe a plain consumer; ``classic`` settings hold only with the classic protocol."""
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": group_id,
        "client.id": client_id,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        **QUIET,
    }
    if protocol == "classic":
        settings |= {name.replace("_", "."): value for name, value in classic.items()}
    made = Consumer(settings)
    made.subscribe([topic])
    return made


def wait_until_all_own(consumers: Sequence[Consumer], partitions: int, deadline_s: float) -> None:
    """Let plain consumers poll until each has a share of so many partitions."""

    def is_done() -> bool:
        for each in consumers:
            each.poll(POLL_S)
        counts = [len(each.assignment()) for each in consumers]
        return sum(counts) == partitions and all(counts)

    until(is_done, deadline_s, "every consumer has its share")


def once_back(call: Callable[[], T], what: str) -> T:
    """Call until no error says that the coordinator has moved; librdkafka tells it the caller."""

    def ask() -> list[T]:
        try:
            return [call()]
        except KafkaException as error:
            if error.args[0].code() not in MOVED:
                raise
            return []

    return until(ask, WITHIN_S, what)[0]


def _pairs(partitions: Iterable[TopicPartition]) -> set[Partition]:
    return {(p.topic, p.partition) for p in partitions}


def partitions_of(topics: Iterable[str], count: int) -> set[Partition]:
    """All partitions of topics that have ``count`` each."""
    return {(topic, partition) for topic in topics for partition in range(count)}


def poll_until(
    members: Sequence[Member], condition: Callable[[], object], deadline_s: float, what: str
) -> None:
    """Keep all members polling until the condition holds."""

    def ask() -> object:
        for member in members:
            member.poll()
        return condition()

    until(ask, deadline_s, what)


def is_shared_out(members: Sequence[Member], everything: set[Partition]) -> bool:
    """Every partition has one owner, and no member has two more than another."""
    owned = [member.assigned for member in members]
    sizes = [len(one) for one in owned]
    return (
        set().union(*owned) == everything
        and sum(sizes) == len(everything)
        and max(sizes) - min(sizes) <= 1
    )


def admin(bootstrap: str) -> AdminClient:
    """Give an AdminClient."""
    patience = {"socket.timeout.ms": int(max(60, ADMIN_S) * 1000)}
    return AdminClient({"bootstrap.servers": bootstrap, **patience, **QUIET})


def _create(client: AdminClient, topic: str, partitions: int) -> None:
    """Create a topic, unless it is there: librdkafka, too, asks again if no answer came."""

    def create() -> None:
        try:
            client.create_topics([NewTopic(topic, partitions, 1)])[topic].result(ADMIN_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    once_back(create, f"{topic} is created")


def create_topics(bootstrap: str, topics: Iterable[str], partitions: int) -> None:
    """Create topics and wait until every server knows each, one that was just killed too."""

    def is_known(server: str) -> bool:
        try:
            return all(wire.partitions(server, topic) == partitions for topic in topics)
        except OSError:
            return False

    client = admin(bootstrap)
    topics = list(topics)
    for topic in topics:
        _create(client, topic, partitions)
    for server in bootstrap.split(","):
        until(
            partial(is_known, server),
            20,
            f"{server} knows {topics} with {partitions} partitions",
        )
