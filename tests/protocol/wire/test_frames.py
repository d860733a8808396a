"""Frames: cutting, reading whatever comes, answering."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st

from protocol.wire import messages as m
from protocol.wire.apis import API, Route, api_versions_response
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import (
    BadFrame,
    FrameBuffer,
    FrameError,
    UnsupportedApiVersion,
    answer_again,
    correlation_id,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    group_id_in,
    without_correlation_id,
)
from protocol.wire.versions import UnsupportedVersionError
from tests.effort import examples
from tests.protocol.wire.strategies import messages

VERSIONS = [(a.key, v) for a in API.values() for v in range(a.min_version, a.max_version + 1)]
FRAMES = st.lists(st.binary(min_size=1, max_size=40), max_size=5)
MANY = settings(max_examples=examples(200), suppress_health_check=list(HealthCheck), deadline=None)


def framed(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(FRAMES, st.data())
def test_frames_come_out_whole_however_the_stream_is_cut(
    frames: list[bytes], data: st.DataObject
) -> None:
    stream = framed(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    buffer, found = FrameBuffer(40), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += buffer.feed(stream[start:end])
    assert found == frames
    assert buffer.pending_bytes == 0


def test_an_unfinished_frame_waits_for_its_rest() -> None:
    buffer = FrameBuffer(100)
    assert buffer.feed(b"\0\0\0\3ab") == []
    assert buffer.pending_bytes == 6
    assert buffer.feed(b"c\0\0\0\1x\0") == [b"abc", b"x"]
    assert buffer.pending_bytes == 1


def test_a_large_frame_is_copied_once_when_it_is_whole() -> None:
    size, piece = 8 << 20, bytes(1 << 16)
    buffer = FrameBuffer(size)
    buffer.feed(size.to_bytes(4, "big"))
    for _ in range(size // len(piece) - 1):
        assert not buffer.feed(piece)
    tracemalloc.start()
    try:
        (frame,) = buffer.feed(piece)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(frame) == size
    assert most < 1.5 * size


@pytest.mark.parametrize("rest", [b"", b"x" * 30])
def test_an_oversized_frame_is_refused_by_its_length_alone(rest: bytes) -> None:
    with pytest.raises(FrameError, match="over the limit of 20"):
        FrameBuffer(20).feed(b"\0\0\0\x15" + rest)


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(FrameError, match="negative"):
        FrameBuffer(20).feed(b"\xff\xff\xff\xff")


@settings(max_examples=examples(200), suppress_health_check=list(HealthCheck), deadline=None)
@given(st.sampled_from(VERSIONS), st.none() | st.text(max_size=5), st.data())
def test_our_own_clients_requests_are_read_as_they_were_meant(
    version: tuple[int, int], client_id: str | None, data: st.DataObject
) -> None:
    key, number = version
    api = API[key]
    if number != api.max_version:
        return
    message = data.draw(messages(api.request))
    frame = encode_request(key, number, 5, client_id, message)
    assert FrameBuffer(10**6).feed(frame) == [frame[4:]]
    decoded = decode_request(frame[4:])
    assert decoded[:4] == (key, number, 5, client_id)
    assert encode_request(key, number, 5, client_id, decoded.message) == frame


def read(frame: bytes) -> None:
    with suppress(BadFrame, UnsupportedApiVersion):
        decode_request(frame)


@MANY
@given(st.binary(max_size=60))
@example(b"")
def test_garbage_gives_a_refusal_and_nothing_else(frame: bytes) -> None:
    read(frame)


@MANY
@given(st.sampled_from(VERSIONS), st.binary(max_size=80))
def test_garbage_behind_a_valid_header_gives_a_refusal_and_nothing_else(
    version: tuple[int, int], body: bytes
) -> None:
    read(struct.pack(">hhih", *version, 1, -1) + body)


@MANY
@given(st.sampled_from(VERSIONS), st.data())
def test_a_valid_frame_with_bytes_changed_lost_or_added_never_breaks_the_reader(
    version: tuple[int, int], data: st.DataObject
) -> None:
    key, number = version
    api = API[key]
    message = data.draw(messages(api.request))
    try:
        frame = bytearray(encode_request(key, number, 5, "client", message)[4:])
    except Exception:  # an old version has no words for it
        return
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(frame)))
        change = data.draw(st.sampled_from(["set", "cut", "add", "huge"]))
        if change == "cut":
            del frame[at : at + data.draw(st.integers(1, 9))]
        elif change == "add":
            frame[at:at] = data.draw(st.binary(max_size=9))
        elif change == "huge":
            frame[at : at + 4] = b"\x7f\xff\xff\xff"
        elif at < len(frame):
            frame[at] = data.draw(st.integers(0, 255))
    read(bytes(frame))


def test_a_huge_array_length_takes_no_memory() -> None:
    head = struct.pack(">hhih", 11, 5, 1, -1)
    body = struct.pack(">h1siih1sh", 1, b"g", 1, 1, 1, b"m", -1) + struct.pack(">h1s", 1, b"p")
    tracemalloc.start()
    with pytest.raises(BadFrame):
        decode_request(head + body + struct.pack(">i", 2**31 - 1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def joining(protocols: int, size: int) -> bytes:
    protocol = m.JoinGroupRequestProtocol(name="", metadata=bytes(size))
    request = blank(m.JoinGroupRequest, group_id="g", protocols=(protocol,) * protocols)
    return encode_request(11, 9, 1, None, request)[4:]


@pytest.mark.thorough
def test_a_large_request_of_nothing_but_tiny_elements_is_refused_early() -> None:
    frame = joining(600_000, 0)
    with pytest.raises(BadFrame, match="more than 100000 elements"):
        decode_request(frame)
    offsets = blank(m.ListConfigResourcesRequest, resource_types=(1,) * 2_000_000)
    with pytest.raises(BadFrame, match="more than 100000 elements"):
        decode_request(encode_request(74, 1, 1, None, offsets)[4:])


@pytest.mark.thorough
def test_a_small_request_has_no_more_elements_than_a_large_one() -> None:
    """900 KB held 900,000 groups to delete, and the event loop for ten seconds."""
    for version in (0, 2):
        many = m.DeleteGroupsRequest(groups_names=("",) * 100_000)
        assert decode_request(encode_request(42, version, 1, "c", many)[4:]).message == many
        more = m.DeleteGroupsRequest(groups_names=("",) * 100_001)
        with pytest.raises(BadFrame, match="more than 100000 elements"):
            decode_request(encode_request(42, version, 1, "c", more)[4:])
    partitions = tuple(
        m.OffsetDeleteRequestPartition(partition_index=index) for index in range(60_000)
    )
    topics = tuple(
        m.OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("a", "b")
    )
    nested = m.OffsetDeleteRequest(group_id="g", topics=topics)
    with pytest.raises(BadFrame, match="more than 100000 elements"):
        decode_request(encode_request(47, 0, 1, "c", nested)[4:])


def test_a_large_request_of_large_elements_is_read() -> None:
    decoded = decode_request(joining(5, 1_000_000))
    assert [len(each.metadata) for each in decoded.message.protocols] == [1_000_000] * 5


def test_bytes_behind_a_message_are_left_alone_as_kafka_leaves_them() -> None:
    frame = encode_request(12, 4, 1, "c", blank(m.HeartbeatRequest, group_id="g"))[4:]
    assert decode_request(frame + b"more").message.group_id == "g"


def test_a_header_with_an_unknown_tagged_field_is_read() -> None:
    frame = encode_request(12, 4, 1, "c", blank(m.HeartbeatRequest, group_id="g"))[4:]
    assert frame[11] == 0
    tagged = frame[:11] + b"\x01\x05\x02ab" + frame[12:]
    assert decode_request(tagged) == decode_request(frame)


@pytest.mark.parametrize("version", [API[18].max_version + 1, 99, -1, 32767])
def test_an_api_versions_request_from_the_future_is_answered_in_version_0(version: int) -> None:
    # KIP-511
    with pytest.raises(UnsupportedApiVersion) as refused:
        decode_request(struct.pack(">hhih", 18, version, 42, -1))
    answer = refused.value.answer
    assert answer is not None
    correlation, listed = decode_response(18, 0, answer[4:])
    assert correlation == 42
    assert listed.error_code == ErrorCode.unsupported_version
    assert listed.api_keys == api_versions_response().api_keys


def test_our_client_understands_that_answer_whatever_it_asked_in() -> None:
    with pytest.raises(UnsupportedApiVersion) as refused:
        decode_request(struct.pack(">hhih", 18, 9, 42, -1))
    assert refused.value.answer is not None
    _, listed = decode_response(18, 4, refused.value.answer[4:])
    assert listed.error_code == ErrorCode.unsupported_version


@pytest.mark.parametrize(("key", "version"), [(0, 2), (12, 5), (8, 1), (24, 4), (-1, 0)])
def test_an_api_or_version_that_is_not_served_has_no_answer(key: int, version: int) -> None:
    with pytest.raises(UnsupportedApiVersion) as refused:
        decode_request(struct.pack(">hhih", key, version, 42, -1))
    assert refused.value.answer is None


def test_api_versions_is_always_answered_with_the_oldest_header() -> None:
    # Its client cannot know yet whether the server writes tagged headers.
    frame = encode_response(18, 4, 9, api_versions_response())
    assert frame[8:10] == b"\0\0"


def test_an_answer_is_repeated_by_patching_its_correlation_id() -> None:
    message = blank(m.HeartbeatRequest, group_id="g")
    first = encode_request(12, 4, 1, "c", message)[4:]
    second = encode_request(12, 4, 0x01020304, "c", message)[4:]
    assert without_correlation_id(first) == without_correlation_id(second)
    assert correlation_id(second) == b"\x01\x02\x03\x04"
    answer: Any = blank(m.HeartbeatResponse)
    written = encode_response(12, 4, 1, answer)
    assert answer_again(written, second) == encode_response(12, 4, 0x01020304, answer)


HUGE = [bytes.fromhex(each) for each in ("ffffffff0f", "ffffffff07", "ffffff7f", "8080808008")]


@pytest.mark.parametrize("huge", HUGE, ids=bytes.hex)
@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: f"{API[v[0]].name}-{v[1]}")
def test_an_array_that_claims_billions_of_elements_gives_a_refusal_and_takes_no_memory(
    version: tuple[int, int], huge: bytes
) -> None:
    # The native reader would make room for them all and end the process.
    for fill in (b"\x00", b"\x01", b"\x02", b"\x02a"):
        for size in range(40):
            body = (fill * 40)[:size] + huge + b"\x01" * 40
            read(struct.pack(">hhih", *version, 1, -1) + b"\x00" + body)


@pytest.mark.parametrize(
    ("key", "version"), [each for each in VERSIONS if API[each[0]].route is Route.GROUP]
)
@settings(MANY, max_examples=examples(10))
@given(data=st.data())
def test_the_group_of_a_request_is_told_without_reading_it(
    key: int, version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(API[key].request))
    message = replace(message, group_id=data.draw(st.sampled_from(("", "g", "gr\u00fcn" * 30))))
    client_id = data.draw(st.none() | st.text(max_size=5))
    try:
        frame = encode_request(key, version, 1, client_id, message)[4:]
    except UnsupportedVersionError:
        reject()  # an old version has room for less
    assert decode_request(frame).message.group_id.encode() == group_id_in(frame)
    for end in range(0, len(frame), 7):
        group_id_in(frame[:end])  # whatever it says, it does not raise


def test_a_request_about_no_group_has_none() -> None:
    frame = encode_request(18, 3, 1, "c", blank(API[18].request))[4:]
    decode_request(frame)
    assert group_id_in(frame) is None
    assert group_id_in(b"") is None
