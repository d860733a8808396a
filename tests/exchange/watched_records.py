"""A rebalance in the log of a watched Kafka whose records do not say why it began.

No client makes a coordinator write that; compaction leaves it while somebody reads. So the records
of a group are written again with the next epoch, but for those of its members: a broker takes
records of that topic from clients with the id of its own tools only.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.share.group import ShareGroup
from protocol.groups.streams.group import StreamsGroup
from protocol.records import Record, UnknownRecordType, decode, encode
from tests.clients import wire
from tests.clients.confluent import QUIET
from tests.exchange.watched_kafka import LOG
from tests.waiting import patient, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BROKERS_TOOL: Final = "__admin_client"
WITHIN_S: Final = patient(60)
CODECS: Final = tuple(each.kind.codec for each in (ConsumerGroup, ShareGroup, StreamsGroup))
EPOCHS: Final[Mapping[type, str]] = {
    **{each.epoch_key: "epoch" for each in CODECS},
    **{each.target_epoch_key: "assignment_epoch" for each in CODECS},
    **{each.current_key: "member_epoch" for each in CODECS},
}
"""The field of each record that has an epoch, by its key's class, in the order of writing."""


def rebalance_without_cause(bootstrap: str, group_id: str, meanwhile: Callable[[], None]) -> None:
    """Write the records of a new epoch and of its target, which all members have, and no others.

    ``meanwhile`` lets the members heartbeat.
    """
    order = [*EPOCHS]
    latest: dict[bytes, tuple[int, Record]] = {}
    for message in _log(bootstrap, meanwhile):
        record = _read(message)
        if record is not None and record.key.group_id == group_id:
            latest[message.key()] = message.partition(), record
    rows = [
        (partition, record) for partition, record in latest.values() if record.value is not None
    ]
    rows.sort(key=lambda row: order.index(type(row[1].key)))
    assert len(rows) >= 3, f"{group_id} has an epoch, a target and a member: {rows}"
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": BROKERS_TOOL, **QUIET})
    now_ms = int(time.time() * 1000)
    failed: list[Any] = []
    for partition, record in rows:
        field, value = EPOCHS[type(record.key)], record.value
        again = Record(record.key, replace(value, **{field: getattr(value, field) + 1}))
        key, data = encode(again)
        producer.produce(
            LOG, data, key, partition, timestamp=now_ms,
            on_delivery=lambda error, _: error is not None and failed.append(error),
        )  # fmt: skip
    assert (producer.flush(WITHIN_S), failed) == (0, [])


def _read(message: Any) -> Record | None:
    """Return a record that has an epoch."""
    try:
        record = decode(message.key(), message.value())
    except UnknownRecordType:
        return None
    return record if type(record.key) in EPOCHS else None


def _log(bootstrap: str, meanwhile: Callable[[], None]) -> Sequence[Any]:
    """Return the messages that the log has by now."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.partition.eof": True}
    client = Consumer({**settings, **QUIET})
    left = set(range(wire.partitions(bootstrap, LOG)))
    client.assign([TopicPartition(LOG, number, 0) for number in left])
    found: list[Any] = []

    def is_read() -> bool:
        meanwhile()
        for message in client.consume(1000, 0.1):
            error = message.error()
            if error is None:
                found.append(message)
                continue
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard(message.partition())
        return not left

    until(is_read, WITHIN_S, "the log is read")
    client.close()
    return found
