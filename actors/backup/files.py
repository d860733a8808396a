"""The files of a backup: written to a new directory, read back, and verified.

Each partition has the directory and the file that it would have in Kafka, for instance
``__consumer_offsets-3/00000000000000000000.log``, with record batches of Kafka's format. So Kafka's
``kafka-dump-log.sh`` reads it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.backup.manifest import (
    MANIFEST,
    BrokenBackupError,
    Manifest,
    PartitionFile,
    directory_of,
    read_manifest,
    render,
)
from actors.errors import BadInputError, FailureError
from failover.machine_adapters import CATALOG_ADAPTER, MACHINES
from failover.partition_kinds import CATALOG, kind_of, title_of
from protocol.record_batches import BadBatchError, encode, read_batches
from protocol.records import BadRecord, UnknownRecordType
from storage.disk.directory import sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from failover.partitions.machine import MachineAdapter
    from storage.batch import RawRecord

SEGMENT: Final = "00000000000000000000.log"
"""Kafka's name of a segment that begins at offset 0."""

BATCH_RECORDS: Final = 500
BATCH_BYTES: Final = 512 << 10
"""A batch has no more, unless it is one large record: Kafka's limit is 1 MiB."""

CHUNK_BYTES: Final = 1 << 20


def segment_path(backup: Path, partition: int) -> Path:
    """Return the file of a partition."""
    return backup / directory_of(partition) / SEGMENT


def adapter_of(partition: int) -> MachineAdapter:
    """Return how the records of a partition are decoded."""
    kind = kind_of(partition)
    return CATALOG_ADAPTER if kind is CATALOG else MACHINES[kind].adapter


@contextlib.contextmanager
def new_backup(target: Path) -> Iterator[Path]:
    """Yield an empty directory to write to, which becomes ``target`` at the end of the block.

    If the block raises, it is removed. Raises BadInputError if ``target`` exists.
    """
    if target.exists():
        raise BadInputError(f"{target} already exists: choose another directory.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise FailureError(f"{target} cannot be written: {error.strerror}.") from error
    try:
        yield draft
        if target.exists():
            raise BadInputError(f"{target} already exists: choose another directory.")
        draft.rename(target)
        sync_directory(target.parent)
    except OSError as error:
        raise FailureError(f"{target} cannot be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_partition(
    backup: Path, partition: int, offset: int, epoch: int, rows: Iterable[RawRecord]
) -> PartitionFile:
    """Write the file of a partition; ``rows`` are its state, one record per key. Raises OSError."""
    made_ms = time.time_ns() // 1_000_000
    path = segment_path(backup, partition)
    path.parent.mkdir(exist_ok=True)
    digest, records, size = hashlib.sha256(), 0, 0
    with path.open("wb") as file:
        for batch in in_batches(rows):
            data = encode(batch, base_offset=records, leader_epoch=epoch, timestamp_ms=made_ms)
            file.write(data)
            digest.update(data)
            records += len(batch)
            size += len(data)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path.parent)
    return PartitionFile(
        partition=partition,
        offset=offset,
        epoch=epoch,
        records=records,
        bytes=size,
        sha256=digest.hexdigest(),
        made_ms=made_ms,
    )


def in_batches(rows: Iterable[RawRecord]) -> Iterator[list[RawRecord]]:
    """Cut records into batches of limited size."""
    batch: list[RawRecord] = []
    size = 0
    for key, value in rows:
        added = len(key) + len(value or b"")
        if batch and (size + added > BATCH_BYTES or len(batch) >= BATCH_RECORDS):
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += added
    if batch:
        yield batch


def write_manifest(backup: Path, manifest: Manifest) -> None:
    """Write the manifest, which completes the backup. Raises OSError."""
    with (backup / MANIFEST).open("xb") as file:
        file.write(render(manifest))
        file.flush()
        os.fsync(file.fileno())
    sync_directory(backup)


def read_partition(backup: Path, row: PartitionFile) -> Iterator[RawRecord]:
    """Iterate over the records of a partition. Raises BrokenBackupError when they are not whole."""
    path = segment_path(backup, row.partition)
    at = 0
    try:
        with path.open("rb") as file:
            for batch in read_batches(file):
                for record in batch.records:
                    if record.offset != at or record.key is None:
                        raise BrokenBackupError(f"{path}: offset {at} is missing.")
                    at += 1
                    yield record.key, record.value
    except OSError as error:
        raise BrokenBackupError(f"{path} cannot be read: {error.strerror}.") from error
    except BadBatchError as error:
        raise BrokenBackupError(f"{path} is damaged: {error}.") from error
    if at != row.records:
        raise BrokenBackupError(f"{path} has {at} records instead of {row.records}.")


def verify(backup: Path) -> Manifest:
    """Check every file of a backup against the manifest, and that every record can be read.

    Records of types that this version does not know are accepted, as when a log is loaded. Raises
    BrokenBackupError.
    """
    manifest = read_manifest(backup)
    for row in manifest.files:
        _check_bytes(segment_path(backup, row.partition), row)
        decode = adapter_of(row.partition).decode
        for key, value in read_partition(backup, row):
            try:
                decode(key, value)
            except UnknownRecordType:
                continue
            except BadRecord as error:
                path = segment_path(backup, row.partition)
                raise BrokenBackupError(
                    f"{path}: a record of {title_of(row.partition)} cannot be read ({error})."
                ) from error
    return manifest


def _check_bytes(path: Path, row: PartitionFile) -> None:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise BrokenBackupError(f"{path} cannot be read: {error.strerror}.") from error
    if size != row.bytes:
        raise BrokenBackupError(f"{path} has {size} bytes instead of {row.bytes}.")
    if digest.hexdigest() != row.sha256:
        raise BrokenBackupError(f"{path} is damaged: its SHA-256 is not that of {MANIFEST}.")
