"""Copies of a partition's committed state, while it is written."""

import asyncio
from collections.abc import Coroutine, Iterator

from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.state_copies import StateCopies, merged
from storage.batch import Batch, RawRecord
from storage.log import AppendBatch, ApplyState, LogError, MemoryLog, Snapshot

keys = st.sampled_from([b"a", b"b", b"c", b"d"])
states = st.dictionaries(keys, st.binary(max_size=2))


def run(test: Coroutine[None, None, None]) -> None:
    asyncio.run(test)


def log_of(state: dict[bytes, bytes], behind: list[tuple[bytes, bytes | None]]) -> MemoryLog:
    """Return a log with a state at offset 5 of epoch 2, and a batch per record in epoch 3."""
    log = MemoryLog()
    log.write([ApplyState(0, 5, 2, tuple(state.items()))], sync=True)
    for index, row in enumerate(behind):
        log.write([AppendBatch(0, Batch(5 + index, 3, 0, (row,)))], sync=True)
    return log


@given(states, st.dictionaries(keys, st.none() | st.binary(max_size=2)))
def test_the_records_behind_a_state_count(
    state: dict[bytes, bytes], behind: dict[bytes, bytes | None]
) -> None:
    slices = iter([(row,) for row in sorted(state.items())])
    found = [row for rows in merged(slices, dict(behind)) for row in rows]
    latest = {**state, **behind}
    assert dict(found) == {key: value for key, value in latest.items() if value is not None}
    assert len(found) == len(dict(found))


def test_a_copy_ends_at_the_high_watermark() -> None:
    async def test() -> None:
        copies = StateCopies(asyncio.get_running_loop())
        log = log_of({b"a": b"1", b"b": b"2"}, [(b"a", None), (b"c", b"3"), (b"d", b"4")])
        start = copies.begin(log, 0, 7, 3)
        assert (start.offset, start.epoch, start.failure) == (7, 3, "")
        log.write([AppendBatch(0, Batch(8, 3, 0, ((b"b", b"new"),)))], sync=True)
        found = []
        while rows := copies.read(0, start.copy_id).records:
            found += rows
        assert found == [(b"b", b"2"), (b"c", b"3")]
        assert "was dropped" in copies.read(0, start.copy_id).failure

    run(test())


def test_a_state_without_records_behind_it_has_its_own_epoch() -> None:
    async def test() -> None:
        copies = StateCopies(asyncio.get_running_loop())
        start = copies.begin(log_of({b"a": b"1"}, []), 0, 5, 2)
        assert (start.offset, start.epoch) == (5, 2)
        copies.close()

    run(test())


def test_a_new_leader_copies_only_once_it_has_committed_something() -> None:
    """Its high watermark may be older than what its predecessor acknowledged."""

    async def test() -> None:
        copies = StateCopies(asyncio.get_running_loop())
        log = log_of({b"a": b"1"}, [(b"a", b"2"), (b"a", b"3")])
        log.write([AppendBatch(0, Batch(7, 4, 0, ((b"b", b"of the new leader"),)))], sync=True)
        for high_watermark in (5, 6, 7):
            failure = copies.begin(log, 0, high_watermark, 4).failure
            assert failure == "partition 0 has a new leader, which has committed nothing yet."
        start = copies.begin(log, 0, 8, 4)
        assert (start.offset, start.epoch, start.failure) == (8, 4, "")
        copies.close()

    run(test())


def test_a_later_copy_of_a_partition_replaces_an_earlier_one() -> None:
    async def test() -> None:
        copies = StateCopies(asyncio.get_running_loop())
        log = log_of({b"a": b"1"}, [])
        first, second = copies.begin(log, 0, 5, 2), copies.begin(log, 0, 5, 2)
        assert "partition 0 was dropped" in copies.read(0, first.copy_id).failure
        assert copies.read(0, second.copy_id).records == ((b"a", b"1"),)
        copies.close()
        assert copies.read(0, second.copy_id).failure

    run(test())


def test_committed_records_that_this_disk_lacks_are_a_failure() -> None:
    async def test() -> None:
        copies = StateCopies(asyncio.get_running_loop())
        assert "not on this disk" in copies.begin(log_of({}, [(b"a", b"1")]), 0, 9, 3).failure

    run(test())


class GoneLog(MemoryLog):
    """A log whose snapshots can no longer be read."""

    def snapshot(self, partition: int) -> Snapshot:
        found = super().snapshot(partition)

        def gone() -> Iterator[tuple[RawRecord, ...]]:
            yield from ()
            raise LogError("the log was closed while it was read.")

        return Snapshot(found.offset, found.epoch, found.voters, gone())


def test_a_log_that_closes_ends_its_copies() -> None:
    async def test() -> None:
        copies = StateCopies(asyncio.get_running_loop())
        log = GoneLog()
        log.write([ApplyState(0, 5, 2, ((b"a", b"1"),))], sync=True)
        start = copies.begin(log, 0, 5, 2)
        assert "closed" in copies.read(0, start.copy_id).failure
        assert "dropped" in copies.read(0, start.copy_id).failure

    run(test())
