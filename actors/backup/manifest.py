"""The manifest of a backup: which cluster, which partitions, and a checksum of each file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta, Struct

from actors.errors import FailureError
from failover.partition_kinds import CATALOG, PARTITIONS_MAX, PLACED, kind_of

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1

Count = Annotated[int, Meta(ge=0)]


class BrokenBackupError(FailureError):
    """A backup is not complete and intact; the message is a sentence that names the file."""


class PartitionFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of one partition, by its number (:mod:`failover.partition_kinds`).

    It holds the committed state before ``offset``, whose last record is of ``epoch``: one record
    per key. ``made_ms`` is when it was read, in Unix milliseconds.
    """

    partition: int
    offset: Count
    epoch: Count
    records: Count
    bytes: Count
    sha256: str
    made_ms: Count


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup holds.

    ``partitions`` is ``offsets.topic.num.partitions``, ``replicas`` is
    ``offsets.topic.replication.factor``. ``files`` has a row for the catalogue and for each
    partition of every kind, in the order of their numbers.
    """

    format: int = FORMAT
    cluster_id: str
    partitions: Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)]
    replicas: Annotated[int, Meta(ge=1)]
    files: tuple[PartitionFile, ...]

    def file_of(self, partition: int) -> PartitionFile:
        """Return the row of a partition."""
        return next(row for row in self.files if row.partition == partition)


def numbers_of(partitions: int) -> list[int]:
    """Return the numbers of all partitions of a cluster: the catalogue's, then each kind's."""
    return [CATALOG.first, *(number for kind in PLACED for number in kind.numbers(partitions))]


def directory_of(partition: int) -> str:
    """Return the name of a partition's directory, as Kafka names it: topic and index."""
    kind = kind_of(partition)
    return f"{kind.topic or kind.name}-{kind.index(partition)}"


def render(manifest: Manifest) -> bytes:
    """Return the text of a manifest."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def read_manifest(backup: Path) -> Manifest:
    """Return the manifest of a backup.

    Raises :class:`BrokenBackupError` if it is missing, unreadable, or lacks a partition.
    """
    path = backup / MANIFEST
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise BrokenBackupError(f"{backup} is not a backup: it has no {MANIFEST}.") from None
    except OSError as error:
        raise BrokenBackupError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        found = msgspec.json.decode(text, type=dict)
        if found.get("format") != FORMAT:
            raise BrokenBackupError(
                f"{path} has format {found.get('format')}, but this version reads format {FORMAT}."
            )
        manifest = msgspec.convert(found, Manifest)
    except msgspec.MsgspecError as error:
        raise BrokenBackupError(f"{path} cannot be read ({error}).") from error
    if [row.partition for row in manifest.files] != numbers_of(manifest.partitions):
        raise BrokenBackupError(
            f"{path} does not list every partition of {manifest.partitions} exactly once."
        )
    return manifest
