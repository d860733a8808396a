"""Members that use kafka-python; see :mod:`tests.clients.programs.telling`."""

import warnings
from collections.abc import Iterable, Mapping

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.filterwarnings("ignore", "(open|read)_text is deprecated", DeprecationWarning)
    from kafka import KafkaConsumer, TopicPartition
    from kafka.consumer.subscription_state import ConsumerRebalanceListener
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

from tests.clients.kafka_python import BOOTSTRAP_MS, CLOSE_MS, poll
from tests.clients.programs.telling import Partition, Teller, ride
from tests.waiting import until

OURS = {"bootstrap", "subscribe", "protocol"}


class Listener(ConsumerRebalanceListener):
    def __init__(self, tell: Teller) -> None:
        self._tell = tell

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._tell.partitions("REVOKED", pairs(revoked))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._tell.partitions("ASSIGNED", pairs(assigned))


class Rider:
    """One consumer. Further settings of the command line are milliseconds of Kafka's names."""

    def __init__(
        self, settings: Mapping[str, str], group_id: str, instance_id: str | None, tell: Teller
    ) -> None:
        self._tell = tell
        self._consumer = KafkaConsumer(
            bootstrap_servers=settings["bootstrap"].split(","),
            bootstrap_timeout_ms=BOOTSTRAP_MS,
            group_id=group_id,
            group_instance_id=instance_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **{k.replace(".", "_"): int(v) for k, v in settings.items() if k not in OURS},
        )
        topics = settings["subscribe"].split(",")
        # A leader that joins before its first metadata has come may assign nothing for good.
        for topic in topics:
            until(
                lambda t=topic: self._consumer.partitions_for_topic(t), 20, f"metadata of {topic}"
            )
        self._consumer.subscribe(topics, listener=Listener(tell))

    def poll(self) -> None:
        try:
            poll(self._consumer, 20)
        except KafkaError as error:
            self._tell("ERROR", type(error).__name__)

    def owned(self) -> set[Partition]:
        return pairs(self._consumer.assignment())

    def commit(self, offsets: Mapping[Partition, int]) -> Mapping[Partition, int]:
        self._consumer.commit(
            {TopicPartition(t, p): OffsetAndMetadata(o, "", -1) for (t, p), o in offsets.items()}
        )
        return offsets

    def close(self) -> None:
        self._consumer.close(timeout_ms=CLOSE_MS)


def pairs(partitions: Iterable[TopicPartition]) -> set[Partition]:
    return {(one.topic, one.partition) for one in partitions}


if __name__ == "__main__":
    ride(Rider)
