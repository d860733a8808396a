"""Members that use confluent-kafka; see :mod:`tests.clients.programs.telling`."""

from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.programs.telling import Partition, Teller, ride

POLL_S = 0.02
OURS = {"bootstrap", "subscribe", "protocol"}


class Rider:
    """One consumer. Further settings of the command line are librdkafka's own."""

    def __init__(
        self, settings: Mapping[str, str], group_id: str, instance_id: str | None, tell: Teller
    ) -> None:
        config: dict[str, object] = {
            "bootstrap.servers": settings["bootstrap"],
            "group.id": group_id,
            "group.protocol": settings["protocol"],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
            **{key: value for key, value in settings.items() if key not in OURS},
        }
        if instance_id is not None:
            config["group.instance.id"] = instance_id
        self._tell = tell
        self._consumer = Consumer(config)
        self._consumer.subscribe(
            settings["subscribe"].split(","),
            on_assign=lambda _, partitions: tell.partitions("ASSIGNED", pairs(partitions)),
            on_revoke=lambda _, partitions: tell.partitions("REVOKED", pairs(partitions)),
            on_lost=lambda _, partitions: tell.partitions("LOST", pairs(partitions)),
        )

    def poll(self) -> None:
        try:
            message = self._consumer.poll(POLL_S)
        except KafkaException as error:
            self._tell("ERROR", error.args[0].name())
            return
        if message is not None and (error := message.error()) is not None:
            self._tell("FATAL" if error.fatal() else "ERROR", f"{error.name()} {error.str()}")

    def owned(self) -> set[Partition]:
        return pairs(self._consumer.assignment())

    def commit(self, offsets: Mapping[Partition, int]) -> Mapping[Partition, int]:
        wanted = [TopicPartition(t, p, offset) for (t, p), offset in offsets.items()]
        answered = self._consumer.commit(offsets=wanted, asynchronous=False)
        for one in answered:
            if one.error is not None:
                raise KafkaException(one.error)
        return offsets

    def close(self) -> None:
        self._consumer.close()


def pairs(partitions: Iterable[TopicPartition]) -> set[Partition]:
    return {(one.topic, one.partition) for one in partitions}


if __name__ == "__main__":
    ride(Rider)
