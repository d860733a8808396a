"""Replays of consumer groups: those of all modern groups, and their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.modern.replay import Replays
from protocol.records import ConsumerGroupPartitionMetadataKey
from protocol.tables import merged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context

GROUPS: Final = Replays(ConsumerGroup)
"""Finds the group of a record, and has the replays that all modern types share."""


def replay_partition_metadata(
    _ctx: Context, _key: ConsumerGroupPartitionMetadataKey, _value: object
) -> None:
    """Ignore a record of Kafka before 4.1; the metadata hash has replaced it."""


REPLAYS: Final[Mapping[type, Callable[[Context, Any, Any], None]]] = merged(
    GROUPS.table(),
    {
        ConsumerGroupPartitionMetadataKey: replay_partition_metadata,
    },
)
