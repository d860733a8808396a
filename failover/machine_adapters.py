"""The state machine of each kind of partition: one table, and how each is made and kept current."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from failover.catalogue import records as catalog_records
from failover.catalogue.catalog import Catalog
from failover.catalogue.state import CATALOG_GROUP
from failover.partition_kinds import GROUPS, SHARE_STATE
from failover.partitions.machine import MachineAdapter
from failover.recording.shard import RecordedShard
from protocol import records
from protocol.groups.group_types import TABLES
from protocol.groups.shard import GroupShard
from protocol.groups.share_state.shard import ShareStateShard
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kio.static.protocol import Entity

    from failover.catalogue.cluster_view import ClusterView
    from failover.partition_kinds import PartitionKind
    from failover.partitions.machine import StateMachine
    from failover.recording.recorder import Recorder
    from protocol.config import Configs
    from protocol.groups.wall import WallClock
    from storage.batch import RawRecord


def _group_of(key: Entity) -> str:
    group: str = key.group if hasattr(key, "group") else key.group_id  # type: ignore[attr-defined]
    return group


def _prefixes_of(numbers: Sequence[int]) -> Callable[[str], tuple[bytes, ...]]:
    """Return a function to the key prefixes of a group's records of some types."""

    def prefixes(group_id: str) -> tuple[bytes, ...]:
        """Return the record types, each followed by the group's id."""
        name = group_id.encode()
        named = len(name).to_bytes(2, "big") + name
        return tuple(number.to_bytes(2, "big") + named for number in numbers)

    return prefixes


def _replay_rows(shard: GroupShard, rows: Iterable[RawRecord]) -> tuple[int, int]:
    return shard.replay_rows(rows)


GROUPS_ADAPTER: Final = MachineAdapter(
    encode=records.encode,
    decode=records.decode,
    group_of=_group_of,
    prefixes_of=_prefixes_of(
        [row.number for key, row in records.RECORD_TYPES.items() if key in TABLES.replays]
    ),
    replay_rows=_replay_rows,
)
SHARE_STATE_ADAPTER: Final = MachineAdapter(
    encode=records.encode,
    decode=records.decode_share_state,
    group_of=_group_of,
    prefixes_of=_prefixes_of([row.number for row in records.SHARE_STATE_TYPES.values()]),
)
CATALOG_ADAPTER: Final = MachineAdapter(
    encode=catalog_records.encode,
    decode=catalog_records.decode,
    group_of=lambda _: CATALOG_GROUP,
    prefixes_of=lambda _: (b"",),
    not_leader=ErrorCode.not_controller,
    tells_commits=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a process gives to its machines: its view, its clock, what records their events."""

    view: Callable[[], ClusterView]
    wall: WallClock
    recorder: Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One row: the machine of a kind of partition that is spread over nodes.

    ``maker`` returns a factory that creates the machine, with the current view, when its partition
    is loaded; it gets a seed and the partition's number. ``show`` gives a machine a new view.
    """

    adapter: MachineAdapter
    maker: Callable[[Surroundings, int, int], Callable[[], StateMachine]]
    show: Callable[[Any, ClusterView], None]


def _shard_maker(around: Surroundings, seed: int, number: int) -> Callable[[], GroupShard]:
    rng = random.Random(seed)

    def make() -> GroupShard:
        seen = around.view()
        recorder = around.recorder
        tape = recorder.tape_for(number)
        shard = RecordedShard(seen.configs, seen.catalog.topics, rng, recorder, tape)
        shard.group_configs = seen.catalog.group_configs()
        shard.wall = around.wall
        return shard

    return make


def _show_shard(shard: GroupShard, view: ClusterView) -> None:
    shard.topics = view.catalog.topics
    shard.configs = view.configs
    shard.group_configs = view.catalog.group_configs()


def _share_state_maker(
    around: Surroundings,
    seed: int,  # noqa: ARG001 - nothing is drawn
    number: int,  # noqa: ARG001 - all are alike
) -> Callable[[], ShareStateShard]:
    def make() -> ShareStateShard:
        seen = around.view()
        return ShareStateShard(seen.configs, seen.catalog.topics, around.wall)

    return make


def _show_share_state(shard: ShareStateShard, view: ClusterView) -> None:
    shard.show(view.configs, view.catalog.topics)


MACHINES: Final[Mapping[PartitionKind, Machine]] = MappingProxyType(
    {
        GROUPS: Machine(adapter=GROUPS_ADAPTER, maker=_shard_maker, show=_show_shard),
        SHARE_STATE: Machine(
            adapter=SHARE_STATE_ADAPTER, maker=_share_state_maker, show=_show_share_state
        ),
    }
)
"""A row for each kind of :data:`failover.partition_kinds.PLACED`."""


def catalog_maker(configs: Configs, seed: int) -> Callable[[], Catalog]:
    """Return a factory that creates a catalogue whenever its partition is loaded."""
    rng = random.Random(seed)
    return lambda: Catalog(configs, rng)
