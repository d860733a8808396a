"""A partition is read while its log changes: only what is committed, as it will be on the disk."""

import random
from collections.abc import Sequence

import pytest

from failover.effects import Effects
from failover.partitions.partition import Partition, PartitionState
from protocol.wire.errors import ErrorCode
from storage.batch import Batch, RawRecord
from storage.log import AppendBatch, MemoryLog, SaveVote, Write
from storage.messages import Append, InstallSnapshot, ReplicaKey
from storage.replica import ReplicaOptions
from storage.timing import Timing
from tests.failover.partitions.test_partition import KIND, NOW, Shelf

ME, LEADER, THIRD = (ReplicaKey(node_id, "directory") for node_id in range(3))
OLD_EPOCH, EPOCH = 1, 2


def row(name: str, value: str) -> RawRecord:
    return f"g/{name}".encode(), value.encode()


def batch(offset: int, epoch: int, value: str) -> Batch:
    return Batch(offset, epoch, NOW, (row(f"k{offset}", value),))


class Standby:
    """A replica that starts on a log of which the last two records of four were not committed."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        stored: list[Write] = [AppendBatch(0, batch(n, OLD_EPOCH, "old")) for n in range(4)]
        self.log.write([SaveVote(0, OLD_EPOCH, -1, 0), *stored], sync=True)
        setting = ReplicaOptions(
            me=ME,
            partition=0,
            voters=(ME, LEADER, THIRD),
            timing=Timing(),
            rng=random.Random(1),
            log=self.log,
        )
        self.partition = Partition(setting, Shelf, KIND, NOW)

    def hear(self, previous: int, batches: Sequence[Batch], high_watermark: int) -> None:
        """Take what the leader of the new epoch says; its log agrees with this one before 2."""
        epoch = OLD_EPOCH if previous else 0
        said = Append(0, EPOCH, LEADER, previous, epoch, tuple(batches), high_watermark, NOW)
        self.partition.replica.step(said, NOW)

    def drain(self) -> list[Write]:
        """End the turn; return what is to be written."""
        effects = Effects()
        self.partition.drain(NOW, effects)
        return effects.writes

    def write(self, writes: Sequence[Write]) -> None:
        self.log.write(writes, sync=True)
        self.partition.replica.persisted(NOW)

    def load(self) -> dict[str, str]:
        """Load to the end; return the machine's values by their names."""
        while self.partition.state is PartitionState.LOADING:
            self.partition.load_slice(1)
            self.write(self.drain())
        machine = self.partition.machine
        assert isinstance(machine, Shelf)
        return {key.name: value for key, value in machine.values.items()}


REPLACED = [batch(n, EPOCH, "new") for n in (2, 3)]
WANTED = {"k0": "old", "k1": "old", "k2": "new", "k3": "new"}


def test_a_log_that_is_truncated_between_two_slices_is_read_as_it_is_then() -> None:
    standby = Standby()
    standby.hear(2, (), 2)
    standby.write(standby.drain())
    assert standby.partition.load_slice(1) == 1
    standby.hear(2, REPLACED, 4)
    standby.write(standby.drain())
    assert standby.load() == WANTED


def test_what_a_turn_is_about_to_truncate_is_not_read() -> None:
    standby = Standby()
    standby.hear(2, REPLACED, 4)
    assert standby.partition.load_slice(3) == 0
    standby.write(standby.drain())
    assert standby.load() == WANTED


def test_what_waits_to_be_truncated_on_a_full_disk_is_not_read() -> None:
    standby = Standby()
    standby.hear(2, REPLACED, 4)
    waiting = standby.drain()
    standby.partition.stuck = ErrorCode.coordinator_not_available
    assert standby.partition.load_slice(3) == 0
    assert standby.partition.next_deadline() != 0, "nothing is asked of a full disk in haste"
    assert not standby.partition.replica.electable
    standby.write(waiting)
    standby.partition.stuck = None
    assert standby.partition.next_deadline() == 0, "it goes on by itself"
    assert standby.load() == WANTED


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_snapshot_that_waits_for_room_is_read_when_it_is_installed(is_loaded: bool) -> None:
    """What the old log holds is neither the snapshot nor a beginning of it."""
    standby = Standby()
    if is_loaded:
        standby.hear(2, (), 2)
        standby.write(standby.drain())
        standby.load()
    rows = (row("k0", "snapshot"), row("k7", "snapshot"))
    voters = (ME, LEADER, THIRD)
    standby.partition.replica.step(
        InstallSnapshot(0, EPOCH, LEADER, 8, EPOCH, 0, rows, True, voters, NOW), NOW
    )
    waiting = standby.drain()
    standby.partition.stuck = ErrorCode.coordinator_not_available
    assert standby.partition.load_slice(10) == 0
    standby.write(waiting)
    standby.partition.stuck = None
    assert standby.load() == {"k0": "snapshot", "k7": "snapshot"}
