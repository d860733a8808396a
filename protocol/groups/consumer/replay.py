"""Replays of consumer groups: those of all groups that reconcile, and what is theirs alone."""

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
"""Finds the group of a record, and has the replays that all types have."""


def replay_partition_metadata(
    _ctx: Context, _key: ConsumerGroupPartitionMetadataKey, _value: object
) -> None:
    """Pass over what Kafka before 4.1 wrote; the metadata hash has taken its place."""


REPLAYS: Final[Mapping[type, Callable[[Context, Any, Any], None]]] = merged(
    GROUPS.table(),
    {
        ConsumerGroupPartitionMetadataKey: replay_partition_metadata,
    },
)
