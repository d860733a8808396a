"""Reads the coordinators' logs from copies of a real Kafka's log directories (``log.dirs``).

Topics, their ids and their partitions are what the directories' names and ``partition.metadata``
say. Directories of several brokers may be given together: of the copies of a partition, the newest
counts. Nothing in them is changed.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections import defaultdict
from typing import TYPE_CHECKING, Final
from uuid import UUID

from actors.backup.kafka_state import STATES, ImportedCluster, KafkaPartition, newest
from actors.cluster.data_dir import new_cluster_id
from actors.errors import BadInputError, FailureError
from failover.partition_kinds import GROUPS
from protocol.properties import parse_properties
from protocol.record_batches import BadBatchError, UnfinishedBatchError, read_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from failover.partition_kinds import PartitionKind

PARTITION: Final = re.compile(r"(.+)-(\d+)")
PARTITION_METADATA: Final = "partition.metadata"
TOPIC_ID: Final = re.compile(r"^topic_id: *(\S{22})$", re.MULTILINE)
META_PROPERTIES: Final = "meta.properties"


def read_directories(directories: Sequence[Path], say: Callable[[str], None]) -> ImportedCluster:
    """Read Kafka's log directories; ``say`` gets a sentence about what was left out.

    Raises CommandError.
    """
    try:
        return _read(directories, say)
    except OSError as error:
        raise FailureError(f"{error.filename} cannot be read: {error.strerror}.") from error


def _read(directories: Sequence[Path], say: Callable[[str], None]) -> ImportedCluster:
    cluster = ImportedCluster(cluster_id=_cluster_id(directories))
    copies: dict[str, dict[int, list[Path]]] = defaultdict(lambda: defaultdict(list))
    ids: dict[str, UUID] = {}
    for directory in directories:
        for path in sorted(directory.iterdir()):
            found = PARTITION.fullmatch(path.name)
            if found is None or not path.is_dir():
                continue
            topic, index = found[1], int(found[2])
            copies[topic][index].append(path)
            _take_topic_id(ids, topic, path)
    for topic, topic_id in ids.items():
        cluster.topics[topic] = (topic_id, max(copies[topic]) + 1)
    for kind in STATES:
        if kind.topic in copies:
            cluster.partitions[kind] = _read_kind(kind, copies[kind.topic], say)
    if GROUPS not in cluster.partitions:
        raise BadInputError(
            f"There is no {GROUPS.topic} in {' or '.join(map(str, directories))}: give the "
            "directories of Kafka's log.dirs."
        )
    return cluster


def _cluster_id(directories: Iterable[Path]) -> str:
    """Return the id of the cluster that the directories belong to; a new one if none says so."""
    ids = set()
    for directory in directories:
        if not directory.is_dir():
            raise BadInputError(f"{directory} is not a directory.")
        file = directory / META_PROPERTIES
        if file.exists():
            ids.add(parse_properties(file.read_text(errors="replace")).get("cluster.id", ""))
    ids.discard("")
    if len(ids) > 1:
        raise BadInputError(
            f"The directories belong to several clusters: {', '.join(sorted(ids))}."
        )
    return ids.pop() if ids else new_cluster_id()


def _take_topic_id(ids: dict[str, UUID], topic: str, path: Path) -> None:
    file = path / PARTITION_METADATA
    found = TOPIC_ID.search(file.read_text(errors="replace")) if file.exists() else None
    if found is None:
        return
    topic_id = UUID(bytes=urlsafe_b64decode(f"{found[1]}=="))
    if ids.setdefault(topic, topic_id) != topic_id:
        raise BadInputError(
            f"{path} has another topic id than the other partitions of {topic}: leave out what is "
            "left of a deleted topic."
        )


def _read_kind(
    kind: PartitionKind, copies: dict[int, list[Path]], say: Callable[[str], None]
) -> list[KafkaPartition]:
    missing = sorted({*range(max(copies) + 1)} - copies.keys())
    if missing:
        raise BadInputError(
            f"{kind.topic}-{missing[0]} is in none of the directories: give those of all brokers "
            "that have partitions of it."
        )
    return [
        newest([_read_partition(kind, path, say) for path in copies[index]])
        for index in sorted(copies)
    ]


def _read_partition(kind: PartitionKind, path: Path, say: Callable[[str], None]) -> KafkaPartition:
    """Read the segments of a partition; the last may end within a batch."""
    partition = KafkaPartition(STATES[kind]())
    segments = sorted(path.glob("*.log"))
    for segment in segments:
        try:
            with segment.open("rb") as file:
                for batch in read_batches(file):
                    partition.add(batch)
        except UnfinishedBatchError as error:
            if segment != segments[-1]:
                raise FailureError(f"{segment} is damaged: {error}.") from error
            say(f"{segment}: {error}; the broker was writing it. That batch is left out.")
        except BadBatchError as error:
            raise FailureError(f"{segment} is damaged: {error}.") from error
        except FailureError as error:
            raise FailureError(f"{segment}: {error}") from error
    return partition
