"""Clients of a cluster without records: they reach the end of each partition and wait there, and
who asks for what is not done here is told so at once."""

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import ConfigResource

from failover.produce_apis import NOT_STORED
from failover.unused_apis import NO_AUTHORIZER, NOT_REASSIGNED
from tests.clients.confluent import ADMIN_S, QUIET, admin, create_topics
from tests.clients.java import PROGRAMS, Closing, run_java
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


def test_librdkafka_gives_up_on_transactions_at_once(bootstrap: str, name: str) -> None:
    if is_kafka():
        pytest.skip("Kafka has transactions")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **QUIET})
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(60)
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
