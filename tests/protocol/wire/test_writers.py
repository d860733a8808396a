"""The writers, and the readers hardened beyond kio's own."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.offset_commit.v6.request import OffsetCommitRequest as OffsetCommitRequestV6
from kio.schema.offset_commit.v9.request import OffsetCommitRequest as OffsetCommitRequestV9
from kio.schema.sync_group.v5.response import SyncGroupResponse
from kio.serial import entity_writer

from protocol.wire.apis import API
from protocol.wire.convert import blank
from protocol.wire.kafka_4_4.index import request_shape, response_shape
from protocol.wire.messages import (
    ShareGroupHeartbeatResponse,
    ShareHeartbeatAssignment,
    ShareHeartbeatTopicPartitions,
)
from protocol.wire.readers import UnreadableError, decoder
from protocol.wire.writers import encoder, remembering
from protocol.wire.written import WrittenAssignment
from tests.effort import examples
from tests.protocol.wire.strategies import messages

SHAPES = [
    load(api.key, version)
    for api in API.values()
    for version in range(api.min_version, api.max_version + 1)
    for load in (request_shape, response_shape)
]
QUICK = settings(max_examples=examples(5), suppress_health_check=list(HealthCheck), deadline=None)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.__name__}-v{s.__version__}")
@QUICK
@given(data=st.data())
def test_the_reader_reads_back_what_was_written(shape: Any, data: st.DataObject) -> None:
    message = data.draw(messages(shape))
    written = encoder(shape)(message)
    assert decoder(shape)(b"xy" + written + b"trailing", 2) == message


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.__name__}-v{s.__version__}")
@QUICK
@given(data=st.data())
def test_the_bytes_are_kios(shape: Any, data: st.DataObject) -> None:
    message = data.draw(messages(shape))
    assert encoder(shape)(message) == by_kio(shape, message)


def by_kio(shape: Any, message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(shape)(buffer, message)
    return buffer.getvalue()


UNUSUAL: list[tuple[Any, dict[str, Any]]] = [
    (HeartbeatRequest, {"group_id": None}),
    (HeartbeatRequest, {"group_id": b"bytes"}),
    (HeartbeatRequest, {"group_id": "long" * 100}),
    (HeartbeatRequest, {"group_id": "longer" * 10_000}),
    (HeartbeatRequest, {"group_id": "\ud800"}),
    (HeartbeatRequest, {"generation_id": 2**31}),
    (HeartbeatRequest, {"generation_id": None}),
    (HeartbeatRequest, {"generation_id": 1.5}),
    (OffsetCommitRequestV6, {"group_id": None}),
    (OffsetCommitRequestV6, {"group_id": "g" * 32_767}),
    (OffsetCommitRequestV6, {"group_id": "g" * 32_768}),
    (OffsetCommitRequestV6, {"topics": None}),
    (OffsetCommitRequestV6, {"topics": [1]}),
    (OffsetCommitRequestV9, {"topics": None}),
    (HeartbeatResponse, {"error_code": 7}),
    (HeartbeatResponse, {"error_code": None}),
    (HeartbeatResponse, {"throttle_time": timedelta(microseconds=1_500)}),
    (HeartbeatResponse, {"throttle_time": timedelta(microseconds=2_500)}),
    (HeartbeatResponse, {"throttle_time": timedelta(days=40)}),
    (SyncGroupResponse, {"assignment": None}),
    (SyncGroupResponse, {"assignment": "text"}),
    (SyncGroupResponse, {"assignment": bytearray(b"bytes")}),
]


@pytest.mark.parametrize(("shape", "values"), UNUSUAL, ids=lambda each: str(each)[:40])
def test_unusual_values_are_written_or_refused_as_kio_does(
    shape: Any, values: dict[str, Any]
) -> None:
    message = blank(shape, **values)
    assert outcome(encoder(shape), message) == outcome(partial(by_kio, shape), message)


def outcome(write: Callable[[Any], bytes], message: Any) -> object:
    try:
        return write(message)
    except Exception as error:
        return type(error), str(error)


def test_a_remembered_answer_is_written_once_and_another_equal_one_is_its_own() -> None:
    calls: list[object] = []

    def encode(message: object) -> bytes:
        calls.append(message)
        return b"bytes"

    once = remembering(encode)
    first, equal = [1], [1]
    assert once(first) == once(first) == once(equal) == b"bytes"
    assert calls[0] is first and calls[1] is equal and len(calls) == 2


@pytest.mark.parametrize("topics", [0, 1, 300])
def test_an_assignment_that_is_written_already_is_copied(topics: int) -> None:
    assignment = ShareHeartbeatAssignment(
        topic_partitions=tuple(
            ShareHeartbeatTopicPartitions(topic_id=UUID(int=n + 1), partitions=(0, n))
            for n in range(topics)
        )
    )
    written = WrittenAssignment(encoder(ShareHeartbeatAssignment)(assignment))
    answer = blank(ShareGroupHeartbeatResponse, member_id="m", assignment=assignment)
    write = encoder(ShareGroupHeartbeatResponse)
    assert write(replace(answer, assignment=written)) == write(answer)
    assert written == assignment == pickle.loads(pickle.dumps(written))
    assert hash(written) == hash(assignment)
    assert decoder(ShareGroupHeartbeatResponse)(write(answer), 0) == answer
    assert write(replace(answer, assignment=None))[-2:] == b"\xff\0"
    if topics:
        assert written != WrittenAssignment(b"\x01\0")


HEARTBEAT = b"\x02g\x00\x00\x00\x05\x02m\x00"


def test_unknown_tagged_fields_are_skipped() -> None:
    # KIP-482: a receiver ignores the tagged fields that it does not know.
    plain = decoder(HeartbeatRequest)(HEARTBEAT + b"\x00", 0)
    assert decoder(HeartbeatRequest)(HEARTBEAT + b"\x02\x07\x03abc\x63\x00", 0) == plain


def test_unknown_tagged_fields_are_skipped_in_nested_structs() -> None:
    commit = b"\x02g\x00\x00\x00\x05\x02m\x00\x02\x02t\x02" + bytes(16) + b"\x01\x01\x05\x01z"
    partition = struct.pack(">iqi", 3, 9, -1) + b"\x01" + b"\x01\x05\x01z"
    body = b"\x02g\x00\x00\x00\x05\x02m\x00\x02\x02t\x02" + partition + b"\x01\x06\x00" + b"\x00"
    message = decoder(OffsetCommitRequestV9)(body, 0)
    assert message.topics[0].partitions[0].committed_offset == 9
    with pytest.raises(UnreadableError):
        decoder(OffsetCommitRequestV9)(commit, 0)


@pytest.mark.parametrize(
    "tags",
    [b"\x01\x07\x7fabc", b"\x7f\x07\x00", b"\x01", b"\xff\xff\xff\xff\x07", b"\xff" * 12],
    ids=["longer than the frame", "too many", "cut off", "a huge count", "no varint"],
)
def test_broken_tagged_fields_are_unreadable(tags: bytes) -> None:
    with pytest.raises(UnreadableError):
        decoder(HeartbeatRequest)(HEARTBEAT + tags, 0)


def test_a_null_array_is_unreadable_where_kafka_allows_no_null() -> None:
    with pytest.raises(UnreadableError, match="null where it may not"):
        decoder(OffsetCommitRequestV9)(b"\x02g\x00\x00\x00\x05\x02m\x00\x00\x00", 0)


@pytest.mark.parametrize("length", [2**31 - 1, -2, -(2**31)])
def test_an_impossible_array_length_is_unreadable_and_takes_no_memory(length: int) -> None:
    body = struct.pack(">h1sih1si", 1, b"g", 1, 1, b"m", length)
    with pytest.raises(UnreadableError):
        decoder(OffsetCommitRequestV6)(body, 0)
