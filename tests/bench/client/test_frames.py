"""Frames made once and patched, held against the codec."""

from hypothesis import given
from hypothesis import strategies as st

from bench.client.frames import (
    CORRELATION_AT,
    HEARTBEAT_ANSWER,
    MARK,
    Template,
    compact,
    frame_of,
    read_compact,
    read_varint,
    split_frames,
    varint,
)
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import decode_request, encode_response
from protocol.wire.messages import NO_THROTTLE, HeartbeatRequest, HeartbeatResponse


def heartbeat(member_id):
    return HeartbeatRequest(group_id="g", generation_id=3, member_id=member_id)


@given(st.text(max_size=300))
def test_a_filled_template_is_the_request_encoded_with_that_member_id(member_id):
    assert Template(heartbeat(MARK)).fill(member_id) == bytes(frame_of(heartbeat(member_id)))


def test_a_patched_correlation_id_is_the_request_s():
    frame = frame_of(heartbeat("m"))
    frame[CORRELATION_AT : CORRELATION_AT + 4] = (77).to_bytes(4)
    decoded = decode_request(bytes(frame[4:]))
    assert (decoded.correlation_id, decoded.message) == (77, heartbeat("m"))


def test_the_expected_heartbeat_answer_is_what_the_codec_writes():
    response = HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none)
    assert encode_response(12, 4, 9, response) == HEARTBEAT_ANSWER.pack(12, 9, 0)


@given(st.integers(0, 2**31 - 1))
def test_varints_are_read_as_they_were_written(value):
    assert read_varint(varint(value), 0) == (value, len(varint(value)))


@given(st.text(max_size=300))
def test_compact_strings_are_read_as_they_were_written(text):
    assert read_compact(compact(text), 0) == (text, len(compact(text)))


@given(st.lists(st.binary(max_size=50)), st.data())
def test_frames_come_out_whole_wherever_the_stream_was_cut(bodies, data):
    stream = b"".join(len(body).to_bytes(4) + body for body in bodies)
    cut = data.draw(st.integers(0, len(stream)))
    first, rest = split_frames(stream[:cut])
    second, nothing = split_frames(rest + stream[cut:])
    assert [frame[4:] for frame in first + second] == bodies
    assert nothing == b""
