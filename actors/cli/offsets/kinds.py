"""What the offsets of a group are, by its type: how they are read, reset and deleted.

Classic and consumer groups are as in ``kafka-consumer-groups.sh``, share groups as in
``kafka-share-groups.sh``, streams groups as in ``kafka-streams-groups.sh``.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from actors.cli import admin
from actors.cli.client import ClientError
from actors.cli.descriptions import describe_group
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.cli.admin import CommittedOffset
    from actors.cli.client import AdminClient
    from protocol.wire.embedded import TopicPartition

    Known = Mapping[TopicPartition, CommittedOffset]

CLASSIC: Final = "classic"
"""The type of a group that is not listed, unless the operator names another."""

DELETED: Final = "Successful"
"""The status of deleted offsets, in the word of Kafka's tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetKind:
    """The offsets of one type of group.

    ``committed`` are those that ``--shift-by`` and ``--to-current`` begin with; ``reset_by`` are
    the flags that its tool has (None: all). ``all_topics`` are the partitions that ``--all-topics``
    selects. ``check`` raises ClientError if a partition cannot be reset. ``delete`` returns the
    status of each partition, and ``by_topic`` says that whole topics are deleted.
    """

    committed: Callable[[AdminClient, str], Known]
    all_topics: Callable[[AdminClient, str], Sequence[TopicPartition]]
    check: Callable[[AdminClient, str, Sequence[TopicPartition]], None]
    reset: Callable[[AdminClient, str, Mapping[TopicPartition, int]], None]
    delete: Callable[[AdminClient, str, Sequence[TopicPartition]], Mapping[TopicPartition, str]]
    reset_by: frozenset[str] | None = None
    by_topic: bool = False


def _committed_partitions(client: AdminClient, group_id: str) -> Sequence[TopicPartition]:
    return sorted(admin.committed_offsets(client, group_id))


def _unchecked(_client: AdminClient, _group_id: str, _partitions: Sequence[TopicPartition]) -> None:
    """Accept any partition."""


def _delete(
    client: AdminClient, group_id: str, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, str]:
    codes = admin.delete_offsets(client, group_id, partitions)
    return {
        partition: DELETED if code == ErrorCode.none else admin.said(code)
        for partition, code in codes.items()
    }


# --- share groups: start offsets, by topic


def _nothing_committed(_client: AdminClient, _group_id: str) -> Known:
    return {}


def _shared_partitions(client: AdminClient, group_id: str) -> Sequence[TopicPartition]:
    return sorted(admin.share_offsets(client, group_id))


def _delete_shared(
    client: AdminClient, group_id: str, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, str]:
    topics = admin.by_topic(partitions)
    wrong = admin.delete_share_offsets(client, group_id, list(topics))
    # A group without any share state answers with no topics at all: nothing is left to delete.
    return {(topic, -1): wrong.get(topic) or DELETED for topic in topics}


# --- streams groups: what the application reads


def _streams_committed(client: AdminClient, group_id: str) -> Known:
    read = {topic for those in describe_group(client, group_id).sources.values() for topic in those}
    committed = admin.committed_offsets(client, group_id)
    return {partition: known for partition, known in committed.items() if partition[0] in read}


def _input_partitions(client: AdminClient, group_id: str) -> Sequence[TopicPartition]:
    inputs = describe_group(client, group_id).input_topics
    return [each for each in _committed_partitions(client, group_id) if each[0] in inputs]


def _check_streams(
    client: AdminClient, group_id: str, partitions: Sequence[TopicPartition]
) -> None:
    if set(partitions) - admin.committed_offsets(client, group_id).keys():
        raise ClientError(f"group {group_id}: one or more topics are not part of the group")


_COMMITTED: Final = OffsetKind(
    committed=admin.committed_offsets,
    all_topics=_committed_partitions,
    check=_unchecked,
    reset=admin.commit_offsets,
    delete=_delete,
)

OFFSET_KINDS: Final[Mapping[str, OffsetKind]] = MappingProxyType(
    {
        CLASSIC: _COMMITTED,
        "consumer": _COMMITTED,
        "share": OffsetKind(
            committed=_nothing_committed,
            all_topics=_shared_partitions,
            check=_unchecked,
            reset=admin.alter_share_offsets,
            delete=_delete_shared,
            reset_by=frozenset({"to_earliest", "to_latest", "to_datetime"}),
            by_topic=True,
        ),
        "streams": OffsetKind(
            committed=_streams_committed,
            all_topics=_input_partitions,
            check=_check_streams,
            reset=admin.commit_offsets,
            delete=_delete,
        ),
    }
)
"""The offsets of each type of group."""
