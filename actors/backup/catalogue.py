"""The catalogue in a backup: adapted to the cluster that is restored from it, or made for it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from failover.catalogue.records import (
    NodeKey,
    TopicKey,
    TopicValue,
    config_record,
    decode,
    encode,
    topic_record,
)
from failover.catalogue.topic_names import OWN_LOGS
from protocol.records import UnknownRecordType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from protocol.records import Record
    from storage.batch import RawRecord

Placement = tuple[tuple[int, ...], ...]
"""The nodes of each partition of a topic, the preferred leader first."""


def adapted(rows: Iterable[RawRecord], placement: Placement) -> Iterator[RawRecord]:
    """Yield the records of the catalogue for a cluster with this placement.

    Its nodes register at their first start, so those of the old cluster are left out. The cluster's
    own logs keep their topic ids and get the new placement.
    """
    for row in rows:
        try:
            record = decode(*row)
        except UnknownRecordType:
            yield row
            continue
        if isinstance(record.key, NodeKey):
            continue
        if isinstance(record.key, TopicKey) and record.key.name in OWN_LOGS:
            assert isinstance(record.value, TopicValue)
            assert record.value.topic_id is not None
            record = topic_record(record.key.name, record.value.topic_id, placement)
        yield encode(record)


def spread(name: str, partitions: int, nodes: int, replicas: int) -> Placement:
    """Spread the partitions of a topic over the nodes, as when it is created."""
    first, count = zlib.crc32(name.encode()), min(replicas, nodes)
    return tuple(
        tuple((first + index + step) % nodes for step in range(count))
        for index in range(partitions)
    )


def topics(
    found: Mapping[str, tuple[UUID, int]], nodes: int, replicas: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of topics, given as ids and numbers of partitions by name."""
    for name, (topic_id, partitions) in sorted(found.items()):
        yield _row(topic_record(name, topic_id, spread(name, partitions, nodes, replicas)))


def configs(
    resource_type: int, found: Mapping[str, Sequence[tuple[str, str]]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of the dynamic configs of resources of a type, by name."""
    for resource, values in sorted(found.items()):
        for name, value in values:
            yield _row(config_record((resource_type, resource), name, value))


def _row(record: Record) -> tuple[bytes, bytes]:
    key, value = encode(record)
    assert value is not None, "it is no tombstone"
    return key, value
