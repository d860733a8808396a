"""Writes groups of a backup to a real Kafka: as records of its coordinators, or as commits."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from actors.backup.kafka_state import place
from actors.cli import admin
from actors.cli.client import GROUP_KEY, SHARE_KEY, ClientError
from actors.cli.kafka_logs import append, topics_of
from actors.errors import BadInputError
from failover.partition_kinds import SHARE_STATE

if TYPE_CHECKING:
    from actors.backup.selection import Selection
    from actors.cli.client import AdminClient
    from actors.cli.kafka_logs import KafkaTopic
    from failover.partition_kinds import PartitionKind

NAMED: Final = 5
"""At most this many groups are named in a sentence."""


def commit_all(client: AdminClient, chosen: Selection) -> None:
    """Commit the offsets of groups; Kafka refuses those of a group with members."""
    for group_id, offsets in sorted(chosen.offsets.items()):
        admin.commit_offsets(client, group_id, offsets)
        print(f"{group_id}: {len(offsets)} offsets")


def write_all(client: AdminClient, chosen: Selection) -> None:
    """Append the records of groups to Kafka's own logs, and say which partitions are to be loaded.

    Raises CommandError, before anything is written, if a group exists there or a topic has another
    id.
    """
    _refuse_existing(client, chosen)
    _refuse_other_ids(client, chosen)
    to_load = []
    for kind, rows in sorted(chosen.rows.items(), key=lambda each: -each[0].first):
        if not rows:
            continue
        topic = _log_of(client, kind, chosen)
        by_index: dict[int, list[tuple[bytes, bytes]]] = {}
        for key, value in rows.items():
            by_index.setdefault(place(kind, key, topic.partitions, None), []).append((key, value))
        for index, own in sorted(by_index.items()):
            append(client, topic, index, own)
            to_load.append(f"{topic.name}-{index}")
            print(f"{to_load[-1]}: {len(own)} records")
    print(
        f"Now let Kafka load {', '.join(to_load)}: restart the brokers that lead them, or move "
        "their leadership. Until then the groups are not there, and groups that are in these "
        "partitions must not be used."
    )


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
