"""The two kinds of state machine that a host replicates: groups and the catalogue."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from failover.catalogue import records as catalog_records
from failover.catalogue.catalog import Catalog
from failover.catalogue.state import CATALOG_GROUP
from failover.partitions.machine import MachineAdapter
from failover.recording.shard import RecordedShard
from protocol import records
from protocol.groups.group_types import TABLES
from protocol.groups.shard import GroupShard
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kio.static.protocol import Entity

    from failover.catalogue.cluster_view import ClusterView
    from failover.recording.recorder import Recorder
    from protocol.config import Configs
    from protocol.groups.wall import WallClock
    from storage.batch import RawRecord


def _group_of(key: Entity) -> str:
    group: str = key.group if hasattr(key, "group") else key.group_id  # type: ignore[attr-defined]
    return group


def _prefixes_of(group_id: str) -> tuple[bytes, ...]:
    """Return the key prefixes of a group's records: the record type, then the group's id."""
    name = group_id.encode()
    named = len(name).to_bytes(2, "big") + name
    return tuple(
        row.number.to_bytes(2, "big") + named
        for key, row in records.RECORD_TYPES.items()
        if key in TABLES.replays
    )


def _replay_rows(shard: GroupShard, rows: Iterable[RawRecord]) -> tuple[int, int]:
    return shard.replay_rows(rows)


GROUPS_ADAPTER: Final = MachineAdapter(
    encode=records.encode,
    decode=records.decode,
    group_of=_group_of,
    prefixes_of=_prefixes_of,
    replay_rows=_replay_rows,
)
CATALOG_ADAPTER: Final = MachineAdapter(
    encode=catalog_records.encode,
    decode=catalog_records.decode,
    group_of=lambda _: CATALOG_GROUP,
    prefixes_of=lambda _: (b"",),
    not_leader=ErrorCode.not_controller,
    tells_commits=True,
)


def shard_maker(
    view: Callable[[], ClusterView],
    seed: int,
    wall: WallClock,
    recorder: Recorder,
    number: int,
) -> Callable[[], GroupShard]:
    """Return a factory that creates a shard, with the current view, when its partition is loaded.

    All shards of a process share one ``wall``; ``recorder`` keeps the events of partition
    ``number``.
    """
    rng = random.Random(seed)

    def make() -> GroupShard:
        seen = view()
        tape = recorder.tape_for(number)
        shard = RecordedShard(seen.configs, seen.catalog.topics, rng, recorder, tape)
        shard.group_configs = seen.catalog.group_configs()
        shard.wall = wall
        return shard

    return make


def catalog_maker(configs: Configs, seed: int) -> Callable[[], Catalog]:
    """Return a factory that creates a catalogue whenever its partition is loaded."""
    rng = random.Random(seed)
    return lambda: Catalog(configs, rng)
