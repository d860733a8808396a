"""What both logs promise: order, atomic units, snapshot and tail, nothing synced is ever lost."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.batch import Batch, ChecksumError, pack, unpack
from storage.identity import LogIdentity
from storage.log import (
    NOBODY,
    AppendBatch,
    ApplyState,
    DropBefore,
    InstallState,
    Log,
    MemoryLog,
    SaveVote,
    Stored,
    TruncateFrom,
)
from storage.rocks import RocksLog

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
    assert log.stored(0).high_watermark == 10
    log.write([ApplyState(0, 12, 4, [])], sync=False)
    assert log.stored(0).high_watermark == 12


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
