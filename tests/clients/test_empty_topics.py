"""Clients on topics without records: they reach the end of each partition, wait there, and learn
that nothing can be produced."""

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tests.clients.confluent import QUIET, create_topics
from tests.clients.java import Closing
from tests.clients.servers import is_kafka
from tests.waiting import until


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_reaches_the_end_of_every_partition(
    bootstrap: str, name: str, closing: Closing, protocol: str
) -> None:
    create_topics(bootstrap, [name], 4)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "group.protocol": protocol,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    closing(consumer.close)
    consumer.subscribe([name])
    ends: set[tuple[int | None, int | None]] = set()

    def poll() -> bool:
        message = consumer.poll(0.1)
        error = None if message is None else message.error()
        if message is not None and error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends.add((message.partition(), message.offset()))
        return len(ends) == 4

    until(poll, 30, "the end of each partition is reached")
    assert ends == {(index, 0) for index in range(4)}


def test_librdkafka_is_told_at_once_that_a_record_is_refused(bootstrap: str, name: str) -> None:
    if is_kafka():
        pytest.skip("Kafka stores records")
    create_topics(bootstrap, [name], 1)
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    errors: list[KafkaError | None] = []
    producer.produce(name, b"record", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert [error and error.code() for error in errors] == [KafkaError.POLICY_VIOLATION]
