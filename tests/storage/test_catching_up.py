"""A standby that is behind costs its leader work by what it is sent, not by what is kept."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import storage.disk.rocks
from storage.batch import Batch
from storage.disk.rocks import RocksLog
from storage.log import AppendBatch, ApplyState
from storage.messages import Append, Appended, Message, ReplicaKey, Vote, Voted
from storage.progress import IN_FLIGHT_BYTES_MAX, MESSAGE_BYTES_MAX
from storage.replica import Replica, ReplicaOptions, Role
from storage.tail import size_of
from storage.timing import Timing
from tests.storage.dying_writer import IDENTITY

BATCHES = 3_000
RECORD_BYTES = 1_000
KEYS = tuple(ReplicaKey(node, f"directory-{node}") for node in range(3))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RocksLog]:
    """A log of which everything is in the state and nothing is dropped."""
    log = RocksLog.open(tmp_path / "log", IDENTITY)
    batches = [Batch(n, 1, 0, ((b"%d" % n, bytes(RECORD_BYTES)),)) for n in range(BATCHES)]
    log.write([AppendBatch(0, each) for each in batches], False)
    log.write([ApplyState(0, BATCHES - 1, 1, [(b"key", b"value")])], False)
    yield log
    log.close()


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offset of each batch that was read, in order."""
    read: list[int] = []
    unpack = storage.disk.rocks.unpack

    def counting(envelope: bytes) -> Batch:
        batch = unpack(envelope)
        read.append(batch.base_offset)
        return batch

    monkeypatch.setattr(storage.disk.rocks, "unpack", counting)
    return read


def turn(replica: Replica, log: RocksLog, now: int) -> list[tuple[int, Message]]:
    sent: list[tuple[int, Message]] = []
    while replica.is_ready:
        ready = replica.ready()
        if ready.writes:
            log.write(ready.writes, False)
        replica.persisted(now)
        sent += ready.messages
    return sent


def leader(log: RocksLog, now: int) -> Replica:
    setting = ReplicaOptions(
        me=KEYS[0], partition=0, voters=KEYS, timing=Timing(), rng=random.Random(0), log=log
    )
    replica = Replica(setting, log.stored(0), log.batches(0, BATCHES - 1), 0)
    replica.campaign(now)
    for _ in ("pre-vote", "vote"):
        asked = [each for node, each in turn(replica, log, now) if node == 1]
        vote = asked[-1]
        assert isinstance(vote, Vote)
        replica.step(Voted(0, vote.epoch, KEYS[1], True, vote.pre_vote), now)
    assert replica.role is Role.LEADER
    turn(replica, log, now)
    return replica


@pytest.mark.parametrize("behind", [10, BATCHES // 2, BATCHES - 10])
def test_a_leader_reads_no_more_batches_than_it_sends(
    log: RocksLog, unpacked: list[int], behind: int
) -> None:
    """S11: the log was unpacked from its start for each message."""
    now = 10_000
    replica = leader(log, now)
    offset = BATCHES - behind
    for accepted in (False, True):
        unpacked.clear()
        now += 10
        replica.step(Appended(0, replica.epoch, KEYS[1], accepted, offset, 1, now), now)
        sent = [
            each
            for node, each in turn(replica, log, now)
            if node == 1 and isinstance(each, Append) and each.batches
        ]
        assert sent and sent[0].previous_offset == offset
        batches = sum(len(each.batches) for each in sent)
        assert len(unpacked) <= batches + 3 * len(sent)
        size = sum(size_of(batch) for each in sent for batch in each.batches)
        assert size <= IN_FLIGHT_BYTES_MAX + MESSAGE_BYTES_MAX, "a turn's work has a bound"


def test_batches_are_found_at_every_offset(log: RocksLog, unpacked: list[int]) -> None:
    for offset in (0, 1, 7, BATCHES - 1, BATCHES):
        unpacked.clear()
        first = next(log.batches(0, offset), None)
        assert (first is None) == (offset == BATCHES)
        assert first is None or first.base_offset == offset
        assert len(unpacked) <= 2
