"""Kafka's record batches: round trips, another client's bytes, damage and limits."""

import io
import warnings
from collections.abc import Sequence

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from protocol.record_batches import (
    NO_PRODUCER,
    BadBatchError,
    LogBatch,
    UnfinishedBatchError,
    encode,
    read_batches,
)

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(open|read)_text is deprecated", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

AT_MS = 1_700_000_000_123
Rows = list[tuple[bytes, bytes | None]]
rows = st.lists(
    st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=300)), min_size=1, max_size=30
)


def all_of(data: bytes) -> list[LogBatch]:
    return list(read_batches(io.BytesIO(data)))


def encoded(found: Rows, base_offset: int = 7, leader_epoch: int = 3) -> bytes:
    return encode(found, base_offset=base_offset, leader_epoch=leader_epoch, timestamp_ms=AT_MS)


def built(
    found: Sequence[tuple[bytes | None, bytes | None]],
    codec: int = 0,
    transactional: bool = False,
    producer_id: int = -1,
) -> bytes:
    """Return the batch that kafka-python makes of these records."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 20,
    )
    for offset, (key, value) in enumerate(found):
        builder.append(offset, timestamp=AT_MS, key=key, value=value, headers=[])
    return bytes(builder.build())


@given(rows, st.integers(0, 2**62), st.integers(0, 2**31 - 1))
def test_what_was_written_is_read(found: Rows, base_offset: int, leader_epoch: int) -> None:
    (batch,) = all_of(encoded(found, base_offset, leader_epoch))
    assert [(record.key, record.value) for record in batch.records] == found
    assert [record.offset for record in batch.records] == [
        base_offset + index for index in range(len(found))
    ]
    assert (batch.base_offset, batch.end_offset) == (base_offset, base_offset + len(found))
    assert batch.leader_epoch == leader_epoch
    assert batch.producer_id == NO_PRODUCER
    assert not batch.is_control
    assert not batch.is_transactional


@given(rows)
def test_another_client_reads_what_was_written(found: Rows) -> None:
    batch = DefaultRecordBatch(encoded(found))
    assert batch.validate_crc()
    assert batch.base_offset == 7
    assert [(record.key, record.value) for record in batch] == found


@pytest.mark.parametrize("codec", [0, 1], ids=["none", "gzip"])
def test_what_another_client_wrote_is_read(codec: int) -> None:
    found: Rows = [(b"k", b"v" * 100), (b"gone", None), (b"", b"")]
    (batch,) = all_of(built(found, codec, transactional=True, producer_id=9))
    assert [(record.key, record.value) for record in batch.records] == found
    assert batch.is_transactional
    assert batch.producer_id == 9


def test_batches_follow_each_other() -> None:
    data = encoded([(b"a", b"1")]) + encoded([(b"b", None)], base_offset=8)
    assert [batch.base_offset for batch in all_of(data)] == [7, 8]
    assert all_of(b"") == []


@given(rows, st.data())
def test_no_flipped_bit_goes_unseen(found: Rows, data: st.DataObject) -> None:
    """The first offset and the leader epoch are outside the checksum: a leader sets them."""
    whole = bytearray(encoded(found))
    checked = [*range(8, 12), *range(16, len(whole))]
    whole[data.draw(st.sampled_from(checked))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BadBatchError):
        all_of(bytes(whole))


@given(rows, st.data())
def test_a_cut_is_seen(found: Rows, data: st.DataObject) -> None:
    whole = encoded(found)
    with pytest.raises(UnfinishedBatchError):
        all_of(whole[: data.draw(st.integers(1, len(whole) - 1))])


@given(st.binary(max_size=200))
def test_any_bytes_are_batches_or_refused(data: bytes) -> None:
    try:
        all_of(data)
    except BadBatchError:
        return
    assert data == b""


@pytest.mark.parametrize(
    ("codec", "why"), [(2, "snappy"), (3, "lz4"), (4, "zstd"), (5, "unknown codec 5")]
)
def test_another_codec_is_named(codec: int, why: str) -> None:
    batch = bytearray(encoded([(b"k", b"v")]))
    batch[22] |= codec
    batch[17:21] = checksum(batch)
    with pytest.raises(BadBatchError, match=why):
        all_of(bytes(batch))


def checksum(batch: bytes | bytearray) -> bytes:
    return crc32c(bytes(batch[21:])).to_bytes(4, "big")


def test_messages_of_old_formats_are_refused() -> None:
    batch = bytearray(encoded([(b"k", b"v")]))
    batch[16] = 1
    with pytest.raises(BadBatchError, match="old format 1"):
        all_of(bytes(batch))
