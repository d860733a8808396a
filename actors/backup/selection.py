"""What of a backup is exported: the records of chosen groups, and the topics that they name."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from actors.backup.files import adapter_of, read_partition
from actors.errors import BadInputError, FailureError
from failover.catalogue.records import TopicKey, TopicValue
from failover.partition_kinds import CATALOG, PLACED, title_of
from protocol.records import OffsetCommitKey, OffsetCommitValue, UnknownRecordType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from actors.backup.manifest import Manifest
    from failover.partition_kinds import PartitionKind

Offsets = dict[tuple[str, int], int]
"""Committed offsets by topic and partition."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The records of some groups, by kind.

    ``topics`` are the names of the topics whose ids are in the records; ``offsets`` are the
    committed offsets of each group.
    """

    rows: dict[PartitionKind, dict[bytes, bytes]]
    groups: frozenset[str]
    topics: dict[UUID, str]
    offsets: dict[str, Offsets]


def select(backup: Path, manifest: Manifest, wanted: Collection[str]) -> Selection:
    """Return the records of the ``wanted`` groups of a verified backup; of all if there are none.

    Raises CommandError, also for a record whose group is not known.
    """
    names = _topic_names(backup, manifest)
    rows: dict[PartitionKind, dict[bytes, bytes]] = {kind: {} for kind in PLACED}
    groups: set[str] = set()
    ids: set[UUID] = set()
    offsets: dict[str, Offsets] = {}
    for kind in PLACED:
        for number in kind.numbers(manifest.partitions):
            adapter = adapter_of(number)
            for key, value in read_partition(backup, manifest.file_of(number)):
                try:
                    record = adapter.decode(key, value)
                except UnknownRecordType as error:
                    raise FailureError(
                        f"{title_of(number)} has a record that this version does not know "
                        f"({error}): export it with the version that wrote it."
                    ) from error
                group_id = adapter.group_of(record.key)
                if value is None or (wanted and group_id not in wanted):
                    continue
                rows[kind][key] = value
                groups.add(group_id)
                ids.update(_ids_in(record.key), _ids_in(record.value))
                if isinstance(record.key, OffsetCommitKey):
                    assert isinstance(record.value, OffsetCommitValue)
                    at = (record.key.topic, record.key.partition)
                    offsets.setdefault(group_id, {})[at] = record.value.offset
    if missing := sorted(set(wanted) - groups):
        raise BadInputError(f"There is no group {missing[0]} in {backup}.")
    if not groups:
        raise BadInputError(f"There are no groups in {backup}.")
    topics = {topic_id: name for topic_id, name in names.items() if topic_id in ids}
    return Selection(rows, frozenset(groups), topics, offsets)


def _topic_names(backup: Path, manifest: Manifest) -> dict[UUID, str]:
    names = {}
    adapter = adapter_of(CATALOG.first)
    for key, value in read_partition(backup, manifest.file_of(CATALOG.first)):
        try:
            record = adapter.decode(key, value)
        except UnknownRecordType:
            continue
        if isinstance(record.key, TopicKey) and isinstance(record.value, TopicValue):
            assert record.value.topic_id is not None
            names[record.value.topic_id] = record.key.name
    return names


def _ids_in(value: Any) -> Iterator[UUID]:
    """Yield the topic ids anywhere in a key or a value."""
    if isinstance(value, UUID):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _ids_in(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _ids_in(getattr(value, field.name))
