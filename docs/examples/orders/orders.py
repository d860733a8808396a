"""An application: workers share the partitions of a topic, and commit what they have done."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

RETRIES = 20
PROTOCOLS = {
    "classic": {
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 500,
    },
    "consumer": {"group.protocol": "consumer"},
}


class Worker:
    """A worker of a group; ``history`` says what it was given and what was taken from it."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, protocol: str = "classic", **settings: object
    ) -> None:
        self.history: list[tuple[str, int]] = []
        self.owned: set[int] = set()
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                **PROTOCOLS[protocol],
                **settings,
            }
        )
        self._consumer.subscribe(
            [topic],
            on_assign=lambda _, partitions: self._given(partitions),
            on_revoke=lambda _, partitions: self._taken("revoked", partitions),
            on_lost=lambda _, partitions: self._taken("lost", partitions),
        )

    def poll(self) -> None:
        """Take part in the group for a moment."""
        self._consumer.poll(0.05)

    def done(self, partition: int, offset: int) -> None:
        """Commit an offset; try again while the coordinator moves."""
        where = TopicPartition(self._topic, partition, offset)
        for attempt in range(RETRIES):
            try:
                self._consumer.commit(offsets=[where], asynchronous=False)
                return
            except KafkaException as error:
                if attempt == RETRIES - 1 or not error.args[0].retriable():
                    raise
                self.poll()

    def committed(self, partition: int) -> int:
        """Return what the group has done of a partition."""
        (found,) = self._consumer.committed([TopicPartition(self._topic, partition)], 10)
        return found.offset

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _given(self, partitions: list[TopicPartition]) -> None:
        self.owned |= {each.partition for each in partitions}
        self.history += [("given", each.partition) for each in partitions]

    def _taken(self, how: str, partitions: list[TopicPartition]) -> None:
        self.owned -= {each.partition for each in partitions}
        self.history += [(how, each.partition) for each in partitions]
