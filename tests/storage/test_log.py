"""What both logs promise: order, atomic units, snapshot and tail, nothing synced is ever lost."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.batch import Batch, ChecksumError, pack, unpack
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from storage.log import (
    NOBODY,
    AppendBatch,
    ApplyState,
    BeginInstall,
    DropBefore,
    FinishInstall,
    InstallSlice,
    InstallState,
    Log,
    MemoryLog,
    SaveVote,
    SaveVoters,
    Stored,
    TruncateFrom,
    Write,
)
from storage.messages import ReplicaKey

IDENTITY = LogIdentity(cluster_id="cluster", node_id=0, partitions=2)


def batch(base: int, *keys: bytes, epoch: int = 1) -> Batch:
    return Batch(base, epoch, 1_000 + base, tuple((key, b"v" + key) for key in keys))


@pytest.fixture(params=["memory", "rocks"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    if request.param == "memory":
        return MemoryLog()
    return RocksLog.open(tmp_path / "log", IDENTITY)


def test_an_unknown_partition_is_empty(log: Log) -> None:
    assert log.stored(1) == Stored()
    assert list(log.batches(1, 0)) == []
    assert list(log.state(1)) == []


def test_batches_come_back_in_order_from_the_one_that_holds_the_offset(log: Log) -> None:
    first, second = batch(0, b"a", b"b"), batch(2, b"c")
    log.write([AppendBatch(0, first), AppendBatch(0, second)], sync=False)
    assert list(log.batches(0, 0)) == [first, second]
    assert list(log.batches(0, 1)) == [first, second]
    assert list(log.batches(0, 2)) == [second]
    assert log.stored(0) == Stored(end_offset=3, last_epoch=1)


def test_partitions_and_the_catalogue_do_not_see_each_other(log: Log) -> None:
    log.write([AppendBatch(-1, batch(0, b"topic")), AppendBatch(1, batch(0, b"x"))], sync=True)
    log.write([ApplyState(-1, 1, 1, [(b"topic", b"t")])], sync=False)
    assert log.stored(0) == Stored()
    assert list(log.state(-1)) == [(b"topic", b"t")]
    assert list(log.state(1)) == []
    assert list(log.batches(1, 0)) == [batch(0, b"x")]


def test_the_state_holds_the_last_value_of_each_key_in_key_order(log: Log) -> None:
    log.write([ApplyState(0, 2, 1, [(b"b", b"1"), (b"a", b"1")])], sync=False)
    log.write([ApplyState(0, 5, 2, [(b"b", None), (b"c", b"3"), (b"a", b"2")])], sync=True)
    assert list(log.state(0)) == [(b"a", b"2"), (b"c", b"3")]
    assert log.stored(0).applied_offset == 5
    assert log.stored(0).applied_epoch == 2


def test_an_iteration_over_the_state_does_not_see_later_writes(log: Log) -> None:
    log.write([ApplyState(0, 1, 1, [(b"a", b"1"), (b"b", b"1")])], sync=False)
    rows = log.state(0)
    assert next(rows) == (b"a", b"1")
    log.write([ApplyState(0, 2, 1, [(b"b", b"2")])], sync=False)
    assert next(rows) == (b"b", b"1")


def test_a_log_dropped_behind_its_snapshot_ends_where_the_snapshot_does(log: Log) -> None:
    log.write([AppendBatch(0, batch(0, b"a")), AppendBatch(0, batch(1, b"b", epoch=3))], sync=True)
    log.write([ApplyState(0, 1, 1, [(b"a", b"va")]), DropBefore(0, 1)], sync=False)
    stored = log.stored(0)
    assert (stored.start_offset, stored.end_offset, stored.last_epoch) == (1, 2, 3)
    log.write([ApplyState(0, 2, 3, [(b"b", b"vb")]), DropBefore(0, 2)], sync=False)
    stored = log.stored(0)
    assert (stored.start_offset, stored.end_offset, stored.last_epoch) == (2, 2, 3)


def test_a_conflicting_tail_is_truncated_and_written_anew(log: Log) -> None:
    log.write([AppendBatch(0, batch(0, b"a")), AppendBatch(0, batch(1, b"old"))], sync=True)
    replacement = batch(1, b"new", epoch=2)
    log.write([TruncateFrom(0, 1), AppendBatch(0, replacement)], sync=True)
    assert list(log.batches(0, 0)) == [batch(0, b"a"), replacement]


def test_an_installed_snapshot_replaces_state_and_log(log: Log) -> None:
    log.write([AppendBatch(0, batch(0, b"a")), ApplyState(0, 1, 1, [(b"a", b"va")])], sync=True)
    log.write([InstallState(0, 40, 7, [(b"z", b"vz")])], sync=True)
    assert list(log.state(0)) == [(b"z", b"vz")]
    assert list(log.batches(0, 0)) == []
    stored = log.stored(0)
    assert (stored.start_offset, stored.end_offset, stored.last_epoch) == (40, 40, 7)


def test_the_vote_is_kept_and_the_high_watermark_is_never_behind_the_state(log: Log) -> None:
    assert log.stored(0).voted_for == NOBODY
    log.write([SaveVote(0, 4, 2, 10)], sync=True)
    assert (log.stored(0).epoch, log.stored(0).voted_for) == (4, 2)
    assert log.stored(0).high_watermark == 0, "it is never ahead of what is there"
    log.write([ApplyState(0, 12, 4, [])], sync=False)
    assert log.stored(0).high_watermark == 12


VOTERS = tuple(ReplicaKey(node, f"directory-{node}") for node in range(3))


def test_the_voters_are_kept_as_last_saved(log: Log) -> None:
    assert log.stored(0).voters == ()
    log.write([SaveVoters(0, VOTERS, 0), SaveVoters(1, VOTERS[:1], 4)], sync=True)
    log.write([SaveVoters(0, VOTERS[:2], 7)], sync=True)
    assert (log.stored(0).voters, log.stored(0).voters_offset) == (VOTERS[:2], 7)
    assert (log.stored(1).voters, log.stored(1).voters_offset) == (VOTERS[:1], 4)


OLD: list[Write] = [
    SaveVote(0, 4, 2, 1),
    SaveVoters(0, VOTERS, 3),
    AppendBatch(0, batch(0, b"a")),
    ApplyState(0, 1, 1, [(b"a", b"va")]),
]


def test_a_snapshot_installed_in_slices_replaces_state_and_log(log: Log) -> None:
    log.write([*OLD, AppendBatch(1, batch(0, b"other"))], sync=True)
    log.write([BeginInstall(0, 40, 7), InstallSlice(0, [(b"y", b"vy")])], sync=False)
    log.write([InstallSlice(0, [(b"z", b"vz")])], sync=False)
    log.write([FinishInstall(0, 40, 7), AppendBatch(0, batch(40, b"next", epoch=8))], sync=True)
    assert list(log.state(0)) == [(b"y", b"vy"), (b"z", b"vz")]
    assert list(log.batches(0, 0)) == [batch(40, b"next", epoch=8)]
    stored = log.stored(0)
    assert (stored.applied_offset, stored.applied_epoch, stored.high_watermark) == (40, 7, 40)
    assert (stored.start_offset, stored.end_offset, stored.last_epoch) == (40, 41, 8)
    assert list(log.batches(1, 0)) == [batch(0, b"other")]


EMPTY_BUT_FOR_ITS_VOTE = Stored(epoch=4, voted_for=2, voters=VOTERS, voters_offset=3)


def test_a_partition_whose_snapshot_is_unfinished_is_empty_but_for_its_vote(log: Log) -> None:
    log.write(OLD, sync=True)
    log.write([BeginInstall(0, 40, 7), InstallSlice(0, [(b"z", b"vz")])], sync=True)
    assert log.stored(0) == EMPTY_BUT_FOR_ITS_VOTE
    assert list(log.state(0)) == []
    assert list(log.batches(0, 0)) == []
    assert list(log.snapshot(0).slices) == []


def test_a_snapshot_that_will_not_come_is_given_up(log: Log) -> None:
    log.write([*OLD, BeginInstall(0, 40, 7), InstallSlice(0, [(b"z", b"vz")])], sync=True)
    log.write([BeginInstall(0, 0, 0), FinishInstall(0, 0, 0)], sync=True)
    log.write([AppendBatch(0, batch(0, b"first"))], sync=True)
    assert list(log.state(0)) == []
    assert log.stored(0).end_offset == 1


def test_a_vote_given_in_the_unit_that_begins_to_install_counts(log: Log) -> None:
    log.write(OLD, sync=True)
    log.write([SaveVote(0, 5, 1, 0), BeginInstall(0, 40, 7)], sync=True)
    assert (log.stored(0).epoch, log.stored(0).voted_for) == (5, 1)


@pytest.mark.parametrize("kind", ["memory", "rocks"])
def test_a_crash_amid_a_snapshot_leaves_an_empty_partition(kind: str, tmp_path: Path) -> None:
    memory = MemoryLog()
    log: Log = memory if kind == "memory" else RocksLog.open(tmp_path, IDENTITY)
    log.write(OLD, sync=True)
    log.write([BeginInstall(0, 40, 7), InstallSlice(0, [(b"z", b"vz")])], sync=True)
    if isinstance(log, RocksLog):
        log.close()
        log = RocksLog.open(tmp_path, IDENTITY)
    else:
        log = memory.crash()
    assert log.stored(0) == EMPTY_BUT_FOR_ITS_VOTE
    log.write([AppendBatch(0, batch(0, b"first"))], sync=True)
    assert (list(log.state(0)), log.stored(0).end_offset) == ([], 1)


def test_a_snapshot_reads_the_state_as_it_was_while_writes_go_on(log: Log) -> None:
    rows = [(b"key-%05d" % n, bytes(200)) for n in range(5_000)]
    log.write([SaveVoters(0, VOTERS, 3), ApplyState(0, 5_000, 6, rows)], sync=True)
    log.write([ApplyState(1, 1, 1, [(b"other", b"x")])], sync=True)
    snapshot = log.snapshot(0)
    log.write([ApplyState(0, 5_001, 6, [(b"key-04999", None), (b"new", b"x")])], sync=True)
    assert (snapshot.offset, snapshot.epoch, snapshot.voters) == (5_000, 6, VOTERS)
    found = list(snapshot.slices)
    assert [row for records in found for row in records] == rows
    assert len(found) == 4, "5,000 records of 209 bytes make four slices of 256 KiB"


def test_the_snapshot_of_an_empty_partition_has_no_slice(log: Log) -> None:
    snapshot = log.snapshot(0)
    log.write([ApplyState(0, 1, 1, [(b"later", b"x")])], sync=True)
    assert (snapshot.offset, list(snapshot.slices)) == (0, [])


@given(
    st.binary(max_size=40),
    st.one_of(st.none(), st.binary(max_size=80)),
    st.integers(0, 2**63),
    st.booleans(),
)
def test_an_envelope_reads_back_as_it_was_written(
    key: bytes, value: bytes | None, base: int, control: bool
) -> None:
    written = Batch(base, 5, 1_700_000_000_000, ((key, value), (b"", None)), control)
    assert unpack(pack(written)) == written


def test_a_batch_is_packed_once_for_the_disk_and_all_peers() -> None:
    written = batch(7, b"key")
    envelope = pack(written)
    assert pack(written) is envelope
    assert pack(unpack(envelope)) is envelope, "a follower writes the bytes that it received"
    assert written == batch(7, b"key") and hash(written) == hash(batch(7, b"key"))


@given(st.data())
def test_a_damaged_envelope_is_found_by_its_checksum(data: st.DataObject) -> None:
    envelope = bytearray(pack(batch(7, b"key", b"other")))
    at = data.draw(st.integers(0, len(envelope) - 1))
    envelope[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ChecksumError):
        unpack(bytes(envelope))
    with pytest.raises(ChecksumError):
        unpack(pack(batch(7, b"key"))[: data.draw(st.integers(0, 20))])


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["append", "apply", "drop", "sync"]), st.integers(0, 3))),
    st.integers(0, 5),
)
def test_a_crash_keeps_all_that_was_synced_and_a_prefix_of_the_rest(
    steps: list[tuple[str, int]], kept: int
) -> None:
    log, end, synced_end, ends = MemoryLog(), 0, 0, []
    for step, key in steps:
        if step in {"append", "sync"}:
            log.write([AppendBatch(0, batch(end, b"%d" % key))], sync=step == "sync")
            end += 1
            ends.append(end)
        elif step == "apply" and end:
            log.write([ApplyState(0, end, 1, [(b"%d" % key, b"x")])], sync=False)
            ends.append(end)
        elif step == "drop":
            log.write([DropBefore(0, log.stored(0).applied_offset)], sync=False)
            ends.append(end)
        if step == "sync":
            synced_end, ends = end, []
    expected = ends[min(kept, len(ends)) - 1] if kept and ends else synced_end
    survivor = log.crash(kept)
    assert survivor.stored(0).end_offset == expected
    found = [b.base_offset for b in survivor.batches(0, 0)]
    assert found == list(range(survivor.stored(0).start_offset, expected))
    assert survivor.crash().stored(0) == survivor.stored(0)
