"""The state that the logs of a real Kafka's coordinators add up to, as records for a backup."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.backup import catalogue, member_states
from actors.backup.files import adapter_of, new_backup, verify, write_manifest, write_partition
from actors.backup.manifest import Manifest, numbers_of
from actors.errors import FailureError
from failover.catalogue.cluster_view import GROUP
from failover.catalogue.topic_names import CLUSTER_METADATA, INTERNAL, OWN_LOGS
from failover.partition_kinds import CATALOG, GROUPS, PLACED, SHARE_STATE
from failover.routing import partition_for
from protocol.groups.share_state.keys import SharePartition, partition_of
from protocol.groups.share_state.state import ShareState
from protocol.records import (
    BadRecord,
    Record,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    UnknownRecordType,
    decode_share_state,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from failover.partition_kinds import PartitionKind
    from protocol.record_batches import LogBatch, LogRecord

COMMIT_MARKER: Final = b"\x00\x00\x00\x01"
"""The key of a control record that commits a transaction: version 0, type 1."""

NOT_IMPORTED: Final = frozenset({CLUSTER_METADATA, *INTERNAL}) - {*OWN_LOGS}
"""Logs of other parts of Kafka, which no group consumes."""


class LogState(Protocol):
    """What the batches of a partition add up to."""

    def add(self, batch: LogBatch) -> None:
        """Add the next batch of the log."""

    def rows(self) -> dict[bytes, bytes]:
        """Return the state: the last value of each key."""


class GroupsState:
    """The state of a partition of ``__consumer_offsets``.

    As in Kafka, records of a transaction count once it is committed, unless a later record of the
    key is there already; those of a transaction that is open at the end of the log do not.
    """

    def __init__(self) -> None:
        self._latest: dict[bytes, tuple[int, bytes | None]] = {}
        self._pending: dict[int, list[LogRecord]] = {}

    def add(self, batch: LogBatch) -> None:
        """Add the next batch of the log."""
        if batch.is_control:
            pending = self._pending.pop(batch.producer_id, [])
            if any((record.key or b"")[:4] == COMMIT_MARKER for record in batch.records):
                self._put(pending)
        elif batch.is_transactional:
            self._pending.setdefault(batch.producer_id, []).extend(batch.records)
        else:
            self._put(batch.records)

    def _put(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            if record.key is None:
                raise FailureError(f"The record at offset {record.offset} has no key.")
            before = self._latest.get(record.key)
            if before is None or before[0] <= record.offset:
                self._latest[record.key] = (record.offset, record.value)

    def rows(self) -> dict[bytes, bytes]:
        """Return the last value of each key."""
        return {key: value for key, (_, value) in self._latest.items() if value is not None}


class ShareGroupsState:
    """The state of a partition of ``__share_group_state``: one snapshot per share partition.

    Kafka's log is not compacted by key: each update has the changes of one write, so they are
    applied to the snapshot that they follow.
    """

    def __init__(self) -> None:
        self._snapshots: dict[ShareSnapshotKey, ShareSnapshotValue] = {}

    def add(self, batch: LogBatch) -> None:
        """Add the next batch of the log."""
        if batch.is_control:
            return
        for each in batch.records:
            record = decode_share_state(each.key or b"", each.value)
            key, value = record.key, record.value
            if isinstance(key, ShareSnapshotKey):
                self._snapshot(key, value)
            elif isinstance(key, ShareUpdateKey) and isinstance(value, ShareUpdateValue):
                self._update(ShareSnapshotKey(key.group_id, key.topic_id, key.partition), value)

    def _snapshot(self, key: ShareSnapshotKey, value: Any) -> None:
        if isinstance(value, ShareSnapshotValue):
            self._snapshots[key] = value
        else:
            self._snapshots.pop(key, None)

    def _update(self, key: ShareSnapshotKey, value: ShareUpdateValue) -> None:
        snapshot = self._snapshots.get(key)
        if snapshot is not None:
            self._snapshots[key] = ShareState(snapshot, value).current()

    def rows(self) -> dict[bytes, bytes]:
        """Return the snapshots."""
        encoded = (encode(Record(key, value)) for key, value in self._snapshots.items())
        return {key: value for key, value in encoded if value is not None}


STATES: Final[Mapping[PartitionKind, Callable[[], LogState]]] = {
    GROUPS: GroupsState,
    SHARE_STATE: ShareGroupsState,
}
"""A row for each kind that Kafka has, too."""


@dataclass(slots=True)
class KafkaPartition:
    """A partition that was read: its state, and the epoch and end of its log."""

    state: LogState
    epoch: int = 0
    end_offset: int = 0

    def add(self, batch: LogBatch) -> None:
        """Add the next batch of the log. Raises FailureError."""
        try:
            self.state.add(batch)
        except (BadRecord, UnknownRecordType) as error:
            raise FailureError(
                f"A record in the batch at offset {batch.base_offset} cannot be read: {error}."
            ) from error
        self.epoch = max(self.epoch, batch.leader_epoch)
        self.end_offset = batch.end_offset


@dataclass(slots=True, kw_only=True)
class ImportedCluster:
    """What was read of a Kafka cluster.

    ``topics`` are ids and numbers of partitions by name; ``partitions`` are those of the logs that
    coordinators have, by kind, in their order; ``group_configs`` are the dynamic configs of groups.
    """

    cluster_id: str
    topics: dict[str, tuple[UUID, int]] = field(default_factory=dict)
    partitions: dict[PartitionKind, list[KafkaPartition]] = field(default_factory=dict)
    group_configs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


def write_import(found: ImportedCluster, target: Path, partitions: int, replicas: int) -> Manifest:
    """Write a backup of a Kafka cluster for a cluster of ours with so many partitions.

    Raises CommandError.
    """
    rows: dict[int, dict[bytes, bytes]] = {number: {} for number in numbers_of(partitions)}
    rows[CATALOG.first].update(_catalogue(found, partitions, replicas))
    epoch = 1
    for kind in PLACED:
        read = found.partitions.get(kind, [])
        for index, each in enumerate(read):
            epoch = max(epoch, each.epoch)
            unmoved = index if len(read) == partitions else None
            for key, value in each.state.rows().items():
                ours = member_states.of_kafka(kind, key, value)
                rows[kind.number(place(kind, key, partitions, unmoved))][key] = ours
    with new_backup(target) as draft:
        files = [
            write_partition(draft, number, len(own), epoch, sorted(own.items()))
            for number, own in rows.items()
        ]
        manifest = Manifest(
            cluster_id=found.cluster_id,
            partitions=partitions,
            replicas=replicas,
            files=tuple(files),
        )
        write_manifest(draft, manifest)
        return verify(draft)


def place(kind: PartitionKind, key: bytes, partitions: int, unmoved: int | None) -> int:
    """Return the partition of its kind that a key belongs to, by Kafka's hash.

    ``unmoved`` is where a key of an unknown type stays; None: that is not possible.
    """
    try:
        decoded: Any = adapter_of(kind.first).decode(key, None).key
    except UnknownRecordType as error:
        if unmoved is None:
            raise FailureError(
                f"{kind.topic} has a record whose group is not known ({error}): keep the number of "
                "partitions, with --partitions."
            ) from error
        return unmoved
    except BadRecord as error:
        raise FailureError(f"A key in {kind.topic} cannot be read: {error}.") from error
    if kind is SHARE_STATE:
        share = SharePartition(decoded.group_id, decoded.topic_id, decoded.partition)
        return partition_of(share, partitions)
    return partition_for(adapter_of(kind.first).group_of(decoded), partitions)


def _catalogue(
    found: ImportedCluster, partitions: int, replicas: int
) -> Iterator[tuple[bytes, bytes]]:
    known = {
        name: (topic_id, partitions if name in OWN_LOGS else count)
        for name, (topic_id, count) in found.topics.items()
        if name not in NOT_IMPORTED
    }
    yield from catalogue.topics(known, partitions, replicas)
    yield from catalogue.configs(GROUP, found.group_configs)


def newest(copies: Sequence[KafkaPartition]) -> KafkaPartition:
    """Return the copy of a partition that has the most, as when a leader is elected."""
    return max(copies, key=lambda copy: (copy.epoch, copy.end_offset))
