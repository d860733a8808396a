"""Frames made once and patched, held against the codec."""

from hypothesis import given
from hypothesis import strategies as st

from protocol.client.frames import (
    HEARTBEAT_ANSWER,
    INT32,
    MARK,
    MARKED,
    Template,
    by_frame,
    error_in,
    frame_of,
    with_number,
)
from protocol.wire import compact
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import decode_request, encode_response
from protocol.wire.messages import NO_THROTTLE, HeartbeatRequest, HeartbeatResponse

GENERATION = 0x0BAD_F00D


def heartbeat(member_id: str, generation: int = 3) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)


@given(st.text(max_size=300), st.integers(0, 2**31 - 1))
def test_a_filled_template_is_the_request_encoded_with_those_values(
    member_id: str, generation: int
) -> None:
    template = Template(heartbeat(MARK, GENERATION), INT32.pack(GENERATION), MARKED)
    filled = template.fill(INT32.pack(generation), compact.string(member_id))
    assert filled == bytes(frame_of(heartbeat(member_id, generation)))


def test_a_patched_correlation_id_is_the_request_s() -> None:
    decoded = decode_request(with_number(frame_of(heartbeat("m")), 77)[4:])
    assert (decoded.correlation_id, decoded.message) == (77, heartbeat("m"))


def test_the_expected_heartbeat_answer_is_what_the_codec_writes() -> None:
    response = HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none)
    assert encode_response(12, 4, 9, response) == HEARTBEAT_ANSWER.pack(12, 9, 0)


def test_an_answer_s_error_is_found_where_the_codec_writes_it() -> None:
    response = HeartbeatResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.rebalance_in_progress
    )
    frame = encode_response(12, 4, 9, response)[4:]
    assert error_in(frame) == ErrorCode.rebalance_in_progress


@given(st.lists(st.binary(min_size=1, max_size=50)), st.data())
def test_frames_come_out_whole_wherever_the_stream_was_cut(
    bodies: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(len(body).to_bytes(4) + body for body in bodies)
    cut = data.draw(st.integers(0, len(stream)))
    frames: list[bytes] = []
    received = by_frame(frames.append)
    received(stream[:cut])
    received(stream[cut:])
    assert frames == bodies
