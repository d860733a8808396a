"""Reads the coordinators' logs of a running Kafka, and appends groups of a backup to them."""

from __future__ import annotations

import io
import time
from base64 import urlsafe_b64encode
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from actors.backup import member_states
from actors.backup.files import in_batches
from actors.backup.kafka_state import STATES, ImportedCluster, KafkaPartition, place
from actors.cli import admin
from actors.cli.client import GROUP_KEY, SHARE_KEY, ClientError, named
from actors.cli.configs import group_configs
from actors.errors import BadInputError
from failover.partition_kinds import GROUPS, SHARE_STATE
from protocol.record_batches import BadBatchError, UnfinishedBatchError, encode, read_batches
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from actors.backup.selection import Selection
    from actors.cli.client import AdminClient
    from failover.partition_kinds import PartitionKind
    from protocol.record_batches import LogBatch
    from storage.batch import RawRecord

ADMIN_CLIENT_ID: Final = "__admin_client"
"""Kafka accepts records for its internal topics from this client only."""

ALL_IN_SYNC: Final = -1
WAIT: Final = timedelta(seconds=5)
FETCH_BYTES: Final = 8 << 20
NAMED: Final = 5
"""At most this many groups are named in a sentence."""
SILENT_MAX: Final = 5
"""How many answers in a row may bring nothing before the end of a log."""


class KafkaTopic:
    """A topic of a running Kafka: its id and the addresses of its partitions' leaders."""

    def __init__(self, name: str, found: Any, brokers: Mapping[int, tuple[str, int]]) -> None:
        self.name = name
        self.topic_id: UUID | None = found.topic_id
        self._leaders = {row.partition_index: row.leader_id for row in found.partitions}
        self._brokers = brokers

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self._leaders)

    def leader(self, index: int) -> tuple[str, int]:
        """Return the address of a partition's leader."""
        leader_id = self._leaders.get(index, -1)
        if leader_id not in self._brokers:
            raise ClientError(f"{self.name}-{index} has no leader")
        return self._brokers[leader_id]


def topics_of(client: AdminClient) -> tuple[str, dict[str, KafkaTopic]]:
    """Return the cluster's id and its topics by name."""
    found = client.metadata(None)
    brokers = {row.node_id: (row.host, row.port) for row in found.brokers}
    topics = {
        row.name: KafkaTopic(row.name, row, brokers)
        for row in found.topics
        if row.error_code is ErrorCode.none
    }
    return found.cluster_id or "", topics


def read_cluster(client: AdminClient) -> ImportedCluster:
    """Read the coordinators' logs to their ends, the topics, and the groups' configs.

    Raises CommandError.
    """
    cluster_id, topics = topics_of(client)
    cluster = ImportedCluster(cluster_id=cluster_id)
    for kind in STATES:
        topic = topics.get(kind.topic or "")
        if topic is not None:
            cluster.partitions[kind] = [
                _read_partition(client, topic, index, KafkaPartition(STATES[kind]()))
                for index in range(topic.partitions)
            ]
    if GROUPS not in cluster.partitions:
        raise ClientError(f"this Kafka has no {GROUPS.topic}: nothing was ever committed there.")
    for name, topic in topics.items():
        if topic.topic_id is not None:
            cluster.topics[name] = (topic.topic_id, topic.partitions)
    cluster.group_configs = group_configs(client)
    return cluster


def _read_partition(
    client: AdminClient, topic: KafkaTopic, index: int, partition: KafkaPartition
) -> KafkaPartition:
    """Read a partition from its start to what its end was at first."""
    where = (topic.name, index)
    ends = [admin.offsets_at(client, [where], which) for which in (admin.EARLIEST, admin.LATEST)]
    if any(where not in found for found in ends):
        raise ClientError(f"{topic.name}-{index} has no leader that says where it ends")
    at, end = (found[where] for found in ends)
    silent = 0
    while at < end:
        batches = _batches(client, topic, index, at)
        silent = 0 if batches else silent + 1
        if silent > SILENT_MAX:
            raise ClientError(f"{topic.name}-{index} cannot be read beyond offset {at} of {end}.")
        for batch in batches:
            partition.add(batch)
            at = batch.end_offset
    return partition


def _batches(client: AdminClient, topic: KafkaTopic, index: int, offset: int) -> list[LogBatch]:
    """Return the whole batches of one answer that end after an offset."""
    wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(
        max_wait=WAIT,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        topics=(FetchTopic(topic_id=topic.topic_id, partitions=(wanted,), topic=topic.name),),
        forgotten_topics_data=(),
    )
    answer = client.ask_at(topic.leader(index), request)
    _check(answer.error_code, topic, index)
    found = answer.responses[0].partitions[0]
    _check(found.error_code, topic, index)
    batches = []
    try:
        for batch in read_batches(io.BytesIO(found.records or b"")):
            batches.append(batch)
    except UnfinishedBatchError:
        pass  # an answer may end within a batch
    except BadBatchError as error:
        raise ClientError(f"{topic.name}-{index} at offset {offset}: {error}.") from error
    return [batch for batch in batches if batch.end_offset > offset]


def append(client: AdminClient, topic: KafkaTopic, index: int, rows: Iterable[RawRecord]) -> None:
    """Append records to a partition; all replicas in sync have them on return."""
    for batch in in_batches(rows):
        now_ms = time.time_ns() // 1_000_000
        records = encode(batch, base_offset=0, leader_epoch=-1, timestamp_ms=now_ms)
        written = PartitionProduceData(index=index, records=records)
        data = TopicProduceData(topic_id=topic.topic_id, name=topic.name, partition_data=(written,))
        request = ProduceRequest(acks=ALL_IN_SYNC, timeout=WAIT, topic_data=(data,))
        found = client.ask_at(topic.leader(index), request).responses[0].partition_responses[0]
        _check(found.error_code, topic, index)


def _check(code: int, topic: KafkaTopic, index: int) -> None:
    if code != ErrorCode.none:
        raise ClientError(f"{topic.name}-{index} cannot be used: {named(code)}")


def commit_all(
    client: AdminClient, chosen: Selection, say: Callable[[str], object]
) -> dict[str, Any]:
    """Commit the offsets of groups; Kafka refuses those of a group with members.

    ``say`` gets a line for each group. Return what was done, for tools.
    """
    for group_id, offsets in sorted(chosen.offsets.items()):
        admin.commit_offsets(client, group_id, offsets)
        say(f"{group_id}: {len(offsets)} offsets")
    return {"groups": {name: len(offsets) for name, offsets in sorted(chosen.offsets.items())}}


def write_all(
    client: AdminClient, chosen: Selection, say: Callable[[str], object]
) -> dict[str, Any]:
    """Append the records of groups to Kafka's own logs, and say which partitions are to be loaded.

    ``say`` gets a line for each partition. Return what was done, for tools. Raises CommandError,
    before anything is written, if a group exists there or a topic has another id.
    """
    _refuse_existing(client, chosen)
    _refuse_other_ids(client, chosen)
    to_load: dict[str, int] = {}
    for kind, rows in sorted(chosen.rows.items(), key=lambda each: -each[0].first):
        if not rows:
            continue
        topic = _log_of(client, kind, chosen)
        by_index: dict[int, list[tuple[bytes, bytes]]] = {}
        for key, value in rows.items():
            index = place(kind, key, topic.partitions, None)
            by_index.setdefault(index, []).append((key, member_states.to_kafka(kind, key, value)))
        for index, own in sorted(by_index.items()):
            append(client, topic, index, own)
            name = f"{topic.name}-{index}"
            to_load[name] = len(own)
            say(f"{name}: {len(own)} records")
    said = (
        f"Now let Kafka load {', '.join(to_load)}: restart the brokers that lead them, or move "
        "their leadership. Until then the groups are not there, and groups that are in these "
        "partitions must not be used."
    )
    say(said)
    return {"to_load": to_load, "said": said}


def _refuse_existing(client: AdminClient, chosen: Selection) -> None:
    there = {str(group.group_id) for group in admin.list_groups(client, (), ())}
    if both := sorted(there & chosen.groups):
        named = ", ".join(both[:NAMED]) + (", ..." if len(both) > NAMED else "")
        raise BadInputError(
            f"This Kafka has groups of the backup: {named}. Delete them there, or choose others "
            "with --group."
        )


def _refuse_other_ids(client: AdminClient, chosen: Selection) -> None:
    _, topics = topics_of(client)
    ids = {topic.topic_id for topic in topics.values()}
    for topic_id, name in sorted(chosen.topics.items(), key=lambda each: each[1]):
        if topic_id not in ids:
            raise BadInputError(
                f"The topic {name} has another id in this Kafka, or is not there, and assignments "
                "of the groups name topics by their ids: use --offsets-only."
            )


def _log_of(client: AdminClient, kind: PartitionKind, chosen: Selection) -> KafkaTopic:
    """Return Kafka's log of a kind; to be asked for a coordinator makes Kafka create it."""
    key, key_type = min(chosen.groups), GROUP_KEY
    if kind is SHARE_STATE:
        topic_id = urlsafe_b64encode(min(chosen.topics).bytes).decode().rstrip("=")
        key, key_type = f"{key}:{topic_id}:0", SHARE_KEY
    client.coordinator(key, key_type)
    topic = topics_of(client)[1].get(kind.topic or "")
    if topic is None:
        raise ClientError(f"this Kafka has no {kind.topic}")
    return topic
