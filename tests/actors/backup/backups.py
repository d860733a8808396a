"""Makes backups of given records, for tests of what reads them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from actors.backup.files import new_backup, write_manifest, write_partition
from actors.backup.manifest import Manifest, numbers_of
from protocol.records import OffsetCommitKey, OffsetCommitValue, Record, encode

CLUSTER_ID = "a-cluster"
Rows = Sequence[tuple[bytes, bytes]]


def committed(group_id: str, offset: int, partition: int = 0) -> tuple[bytes, bytes]:
    """Return the record of a committed offset."""
    key = OffsetCommitKey(group=group_id, topic="t", partition=partition)
    value = OffsetCommitValue(
        offset=offset, leader_epoch=-1, metadata="", commit_timestamp=1, expire_timestamp=-1
    )
    encoded = encode(Record(key, value))
    assert encoded[1] is not None
    return encoded[0], encoded[1]


def write_backup(
    target: Path, rows: Mapping[int, Rows], partitions: int = 1, replicas: int = 1
) -> Manifest:
    """Write a backup with these records, by partition; offsets are 100 each, in epoch 5."""
    with new_backup(target) as draft:
        manifest = Manifest(
            cluster_id=CLUSTER_ID,
            partitions=partitions,
            replicas=replicas,
            files=tuple(
                write_partition(draft, number, 100, 5, rows.get(number, ()))
                for number in numbers_of(partitions)
            ),
        )
        write_manifest(draft, manifest)
    return manifest
