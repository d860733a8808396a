"""Clients of a cluster without records: they reach the end of each partition and wait there, and
who asks for what is not done here is told so at once."""

import kafka
import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource
from kafka import KafkaConsumer

from failover.apis.produce import NOT_STORED
from failover.apis.unused import NO_AUTHORIZER, NOT_REASSIGNED
from tests.clients.confluent import ADMIN_S, QUIET, admin, create_topics
from tests.clients.java import PROGRAMS, Closing, run_java
from tests.clients.servers import is_kafka
from tests.waiting import WITHIN_S, patient, until


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


def imported(bootstrap: str, name: str, **epoch: int) -> None:
    """Commit offset 500 of a new topic for the group of that name, which has no members."""
    create_topics(bootstrap, [name], 1)
    offsets = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 500, **epoch)])
    client = admin(bootstrap)
    client.alter_consumer_group_offsets([offsets])[name].result(ADMIN_S)


def committed(bootstrap: str, name: str) -> int:
    """Give what is committed for the only partition."""
    client = admin(bootstrap)
    asked = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0)])
    (found,) = client.list_consumer_group_offsets([asked])[name].result(ADMIN_S).topic_partitions
    return int(found.offset)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("epoch", [{}, {"leader_epoch": 5}], ids=["plain", "epoch-5"])
def test_imported_offsets_survive_librdkafkas_automatic_commits(
    bootstrap: str, name: str, closing: Closing, protocol: str, epoch: dict[str, int]
) -> None:
    if is_kafka():
        pytest.skip("Kafka resets an offset that is out of range")
    imported(bootstrap, name, **epoch)
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
    seen: list[int | None] = []

    def poll() -> bool:
        message = consumer.poll(0.1)
        if message is not None:
            error = message.error()
            assert error is not None
            assert error.code() == KafkaError._PARTITION_EOF, error
            seen.append(message.offset())
        return bool(seen)

    until(poll, 30, "the end of the partition is reached")
    consumer.close()
    assert (seen, committed(bootstrap, name)) == ([500], 500)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_imported_offsets_survive_javas_automatic_commits(
    bootstrap: str, name: str, protocol: str
) -> None:
    if is_kafka():
        pytest.skip("Kafka resets an offset that is out of range")
    imported(bootstrap, name, leader_epoch=0)
    told = run_java(PROGRAMS / "Stay.java", bootstrap, name, name, protocol)
    assert told.split()[-2:] == ["500", "500"]
    assert committed(bootstrap, name) == 500


def test_imported_offsets_survive_kafka_pythons_automatic_commits(
    bootstrap: str, name: str, closing: Closing
) -> None:
    if is_kafka():
        pytest.skip("Kafka resets an offset that is out of range")
    imported(bootstrap, name)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), group_id=name, auto_offset_reset="earliest"
    )
    closing(consumer.close)
    partition = kafka.TopicPartition(name, 0)
    consumer.assign([partition])

    def poll() -> bool:
        consumer.poll(timeout_ms=100)
        return consumer.highwater(partition) is not None

    until(poll, 30, "a fetch is answered")
    assert (consumer.position(partition), consumer.highwater(partition)) == (500, 500)
    consumer.close()
    assert committed(bootstrap, name) == 500


def test_librdkafka_is_told_at_once_that_a_record_is_refused(bootstrap: str, name: str) -> None:
    if is_kafka():
        pytest.skip("Kafka stores records")
    create_topics(bootstrap, [name], 1)
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    errors: list[KafkaError | None] = []
    producer.produce(name, b"record", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WITHIN_S) == 0
    assert [error and error.code() for error in errors] == [KafkaError.POLICY_VIOLATION]


def test_librdkafka_gives_up_on_transactions_at_once(bootstrap: str, name: str) -> None:
    if is_kafka():
        pytest.skip("Kafka has transactions")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **QUIET})
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(patient(60))
    error = raised.value.args[0]
    assert error.fatal()
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "transactions and records are not stored" in error.str()


NO_TRANSACTION = "TransactionalIdAuthorizationException"
TOLD = {
    "features": "1",
    "acls": f"SecurityDisabledException: {NO_AUTHORIZER}",
    "delete-acls": f"SecurityDisabledException: {NO_AUTHORIZER}",
    "delete-records": "0",
    "log-dirs": "1",
    "elections": "{}",
    "election": "ElectionNotNeededException",
    "reassignments": "{}",
    "reassign": f"PolicyViolationException: {NOT_REASSIGNED}",
    "quotas": "{}",
    "scram": "{}",
    "producers": "[]",
    "transactions": "[]",
    "fence": NO_TRANSACTION,
    "produce": f"PolicyViolationException: {NOT_STORED}",
    "produce-in-transaction": NO_TRANSACTION,
}
"""What Java's clients are told, or how that begins."""


def test_javas_clients_are_told_at_once_what_is_not_done(bootstrap: str, name: str) -> None:
    if is_kafka():
        pytest.skip("Kafka does more")
    create_topics(bootstrap, [name], 1)
    lines = run_java(PROGRAMS / "Unserved.java", bootstrap, name).splitlines()
    told = dict(line.split("\t", 1) for line in lines if "\t" in line)
    assert {call: told[call][: len(begin)] for call, begin in TOLD.items()} == TOLD


def test_the_older_alter_configs_replaces_all_configs(bootstrap: str, name: str) -> None:
    create_topics(bootstrap, [name], 1)
    client = admin(bootstrap)

    def replace(**configs: str) -> dict[str, str | None]:
        resource = ConfigResource(
            ConfigResource.Type.TOPIC,
            name,
            set_config={key.replace("_", "."): value for key, value in configs.items()},
        )
        with pytest.deprecated_call():
            client.alter_configs([resource])[resource].result(ADMIN_S)

        def own() -> dict[str, str | None]:
            entries = client.describe_configs([resource])[resource].result(ADMIN_S).values()
            return {one.name: one.value for one in entries if not one.is_default}

        wanted = {key.replace("_", "."): value for key, value in configs.items()}
        until(lambda: wanted.items() <= own().items(), 20, "the node knows the configs")
        return own()

    assert replace(retention_ms="1000", segment_ms="5000").keys() >= {"retention.ms", "segment.ms"}
    assert "segment.ms" not in replace(retention_ms="2000")
