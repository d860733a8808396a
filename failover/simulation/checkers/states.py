"""Check every few seconds and at the end that machines hold what the committed log says.

A standby is compared with a separate machine that replays only the committed batches.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

from failover.catalogue import records as catalog_records
from failover.catalogue.catalog import Catalog
from failover.machine_adapters import GROUPS_ADAPTER
from failover.partition_kinds import CATALOG, GROUPS, SHARE_STATE, kind_of
from failover.partitions.partition import PartitionState
from failover.simulation.checkers.downgrades import Downgrades
from failover.simulation.checkers.modern_states import TargetProgress, described, reconciles
from failover.simulation.event_log import Violation
from protocol import records
from protocol.config import Configs
from protocol.groups.invariants import broken
from protocol.groups.shard import GroupShard
from protocol.groups.share_state.shard import ShareStateShard
from protocol.groups.topics import Topics
from protocol.groups.wall import WallClock
from protocol.records import GroupMetadataValue
from storage.control import voters_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from failover.partition_kinds import PartitionKind
    from failover.partitions.partition import Partition
    from failover.simulation.checkers.downgrades import GaveUp, Name
    from failover.simulation.checkers.replicated import Replicated
    from failover.simulation.nodes.process import Process
    from protocol.records import Record
    from storage.messages import ReplicaKey


UNRECORDED: Final = GroupMetadataValue(
    protocol_type="",
    generation=0,
    protocol=None,
    leader=None,
    current_state_timestamp=-1,
    members=(),
)
"""A simple consumer's group: a commit alone creates it."""


MACHINES: Final[Mapping[PartitionKind, tuple[Callable[[Configs], Any], Callable[..., Record]]]] = {
    CATALOG: (lambda configs: Catalog(configs, random.Random(0)), catalog_records.decode),
    GROUPS: (lambda configs: GroupShard(configs, Topics(), random.Random(0)), records.decode),
    SHARE_STATE: (
        lambda configs: ShareStateShard(configs, Topics(), WallClock()),
        records.decode_share_state,
    ),
}
"""The machine of each kind of partition, and how its records are read."""


class Reference:
    """One partition's hard state, replayed from its committed batches."""

    def __init__(self, number: int, name: Name, gave_up: GaveUp) -> None:
        configs = Configs({})
        self.kind = kind_of(number)
        make, self._decode = MACHINES[self.kind]
        self.machine = make(configs)
        self.offset = 0
        self._written_at = 0
        self._progress = TargetProgress()
        self._downgrades = Downgrades(name, gave_up)

    def has_half(self, group_id: str) -> bool:
        """Whether machines may differ about a group's targets (see :class:`TargetProgress`)."""
        return self._progress.has_half(group_id)

    def advance(self, replicated: Replicated, number: int) -> bool:
        """Replay what was committed meanwhile; False when nothing is known of the partition."""
        committed = replicated.committed.get(number)
        if committed is None:
            return False
        decode, has_groups = self._decode, self.kind is GROUPS
        while (batch := committed.batches.get(self.offset)) is not None:
            if not batch.control:
                place = (number, batch.base_offset, batch.leader_epoch)
                since, self._written_at = self._written_at, replicated.first_written[place]
                self._downgrades.begin(since, self._written_at)
                changed: dict[str, None] = {}
                for key, value in batch.records:
                    record = decode(key, value)
                    if has_groups:
                        self._downgrades.check(self.machine._context, record)
                        changed[GROUPS_ADAPTER.group_of(record.key)] = None
                    self.machine.replay(record)
                if has_groups:
                    self._progress.check(self.machine._context, changed)
            self.offset = batch.end_offset
        return True


class States:
    """Compares memory with what is committed, and checks the invariants."""

    def __init__(self, replicated: Replicated, name: Name, gave_up: GaveUp) -> None:
        self._replicated = replicated
        self._name = name
        self._gave_up = gave_up
        self._references: dict[int, Reference] = {}
        self._compared: dict[tuple[int, int], tuple[Any, int]] = {}

    def check(self, processes: Iterable[Process]) -> None:
        """Check every machine of these processes that is at the end of the committed log."""
        for process in processes:
            if process.host is None or process.is_loading or process.is_mid_turn:
                continue
            for partition in process.partitions():
                self._check(process, partition)

    def _check(self, process: Process, partition: Partition) -> None:
        number = partition.number
        if partition.state is PartitionState.LEADER and kind_of(number) is GROUPS:
            context = partition.machine._context  # type: ignore[attr-defined]
            for sentence in broken(context):
                raise Violation(f"node {process.node_id}: {sentence}", sentence.split(":")[0])
        replica = partition.replica
        if partition.state is PartitionState.LOADING or not partition.settled:
            return
        reference = self._references.get(number)
        if reference is None:
            reference = self._references[number] = Reference(number, self._name, self._gave_up)
        known = reference.advance(self._replicated, number)
        if not known or replica.high_watermark != reference.offset:
            return
        self._has_voters(process, partition)
        machine, offset = self._compared.get((process.node_id, number), (None, -1))
        if machine is partition.machine and offset == reference.offset:
            return
        self._compared[process.node_id, number] = (partition.machine, reference.offset)
        if difference := _difference(partition.machine, reference):
            raise Violation(
                f"node {process.node_id} ({partition.state}) at {reference.offset} is not what the"
                f" committed log says: {difference}",
                f"partition {number}",
            )

    def _has_voters(self, process: Process, partition: Partition) -> None:
        """Check that a replica's voters are those of the last change in its log."""
        if process.has_backlog:
            return
        number = partition.number
        voters = self._replicated.committed[number].voters
        for batch in process.log.batches(number, 0):
            if batch.control:
                voters = voters_in(batch) or voters
        if voters is not None and partition.replica.voters != voters:
            raise Violation(
                f"node {process.node_id} counts {_names(partition.replica.voters)}, its log says"
                f" {_names(voters)}",
                f"partition {number}",
            )


def _names(voters: tuple[ReplicaKey, ...]) -> str:
    return ", ".join(voter.directory_id for voter in voters)


def _difference(machine: Any, reference: Reference) -> str:
    """Return the first difference between two machines; empty when there is none."""
    if reference.kind is CATALOG:
        mine, theirs = (sorted(map(repr, one.snapshot())) for one in (machine, reference.machine))
        return "" if mine == theirs else "the catalogue differs"
    if reference.kind is SHARE_STATE:
        mine, theirs = machine.context.states, reference.machine.context.states
        return "" if mine == theirs else f"share states are {mine}, not {theirs}"
    mine, theirs = machine._context, reference.machine._context
    for group_id in {**mine.groups, **theirs.groups}:
        with_targets = not reference.has_half(group_id)
        one, other = _plain(mine, group_id, with_targets), _plain(theirs, group_id, with_targets)
        if one != other:
            return f"{group_id} is {_what_differs(one, other)}"
    if mine.offsets != theirs.offsets:
        return f"offsets are {mine.offsets}, not {theirs.offsets}"
    if mine.shadowed.keys() != theirs.shadowed.keys():
        return f"shadowed are {mine.shadowed}, not {theirs.shadowed}"
    return ""


def _what_differs(one: Any, other: Any) -> str:
    """Return where two values differ, as deep as their shapes agree."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        pairs = [(mine, theirs) for mine, theirs in zip(one, other, strict=True) if mine != theirs]
        return "; ".join(_what_differs(*pair) for pair in pairs)
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
        return "; ".join(f"{key}: {_what_differs(one.get(key), other.get(key))}" for key in keys)
    return f"{one}, not {other}"


def _plain(context: Any, group_id: str, with_targets: bool) -> Any:
    """Return a group as a value that does not depend on how a machine numbers topics."""
    group = context.groups.get(group_id)
    if reconciles(group):
        return described(context, group, with_targets=with_targets)
    if group is not None and group.metadata == UNRECORDED and group_id not in context.offsets:
        return None  # as seen after loading: there is no record of it
    return group
