"""The parts of a shard (group types included) and the edges between types."""

from __future__ import annotations

from typing import Final

from protocol.groups import describe, election, shadowed, timeouts
from protocol.groups.classic.group_type import CLASSIC
from protocol.groups.consumer.group_type import CONSUMER
from protocol.groups.dispatch import Tables, merge
from protocol.groups.migration import edges as migration_edges
from protocol.groups.migration import offline as offline_migration
from protocol.groups.modern import part as modern_part
from protocol.groups.offsets import commit as offsets
from protocol.groups.share.group_type import SHARE
from protocol.groups.streams.group_type import STREAMS

PARTS: Final = (
    election.PART,
    shadowed.PART,
    timeouts.PART,
    modern_part.PART,
    CONSUMER,
    SHARE,
    STREAMS,
    CLASSIC,
    migration_edges.PART,
    offsets.PART,
    describe.PART,
)
"""In the order in which they react to lifecycle events of the shard."""

EDGES: Final = (
    migration_edges.UPGRADE,
    migration_edges.DOWNGRADE,
    offline_migration.TO_STREAMS,
    offline_migration.TO_CLASSIC,
)

TABLES: Tables = merge(PARTS, EDGES)
