"""Replicas' messages as bytes: what was said is what is heard, and nothing else is."""

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch import Batch
from storage.messages import (
    Append,
    Appended,
    InstallSnapshot,
    Joining,
    Leading,
    ReplicaKey,
    SnapshotInstalled,
    TransferLeadership,
    Vote,
    Voted,
)
from storage.peer_frames import MessageError, pack_messages, unpack_messages
from storage.peer_packing import CONTINUES, FrameReader, bodies, framed, without_payload

KEY = ReplicaKey(1, "directory")
BATCH = Batch(7, 3, 1_700_000_000_000, ((b"key", b"value"), (b"gone", None)))
MESSAGES = (
    Vote(-1, 4, KEY, 3, 9, pre_vote=True, transfer=False),
    Voted(0, 4, KEY, granted=True, pre_vote=False),
    Append(0, 4, KEY, 7, 3, (BATCH, Batch(9, 4, 5, ((b"", b""),), True)), 7, 12),
    Appended(0, 4, KEY, True, 9, 4, 12),
    InstallSnapshot(0, 4, KEY, 9, 3, 2, ((b"k", b"v"),), False, (KEY, ReplicaKey(2, "")), 12),
    SnapshotInstalled(0, 4, KEY, 9, 3, 12),
    TransferLeadership(0, 4, KEY),
    Joining(0, 4, KEY),
    Leading(0, 4, 1),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_each_message_is_heard_as_it_was_said(message) -> None:
    assert unpack_messages(pack_messages([message])) == (message,)


def test_a_frame_holds_any_number_of_messages_in_order() -> None:
    assert unpack_messages(pack_messages(MESSAGES)) == MESSAGES
    assert unpack_messages(pack_messages([])) == ()


def changed(row: list[object], at: int, value: object) -> bytes:
    return msgpack.packb([1, [*row[:at], value, *row[at + 1 :]]])


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"GET / HTTP/1.1",
        b"\x90",
        msgpack.packb({"version": 1}),
        msgpack.packb([2]),
        msgpack.packb([1, 5]),
        msgpack.packb([1, [99, 0, 0]]),
        msgpack.packb([1, [-1, 0, 0, 0]]),
        msgpack.packb([1, [8, 0, 4]]),
        changed([8, 0, 4, 1], 2, "4"),
        changed([7, 0, 4, [1, "d"]], 3, [1]),
        changed([7, 0, 4, [1, "d"]], 3, ["1", "d"]),
        changed([1, 0, 4, [1, "d"], True, False], 4, 1),
        changed([2, 0, 4, [1, "d"], 0, 0, [], 0, 0], 6, [b"no envelope"]),
        changed([4, 0, 4, [1, "d"], 0, 0, 0, [], True, [], 0], 7, [["text", b""]]),
    ],
    ids=str,
)
def test_anything_that_is_no_frame_of_this_version_is_refused(frame: bytes) -> None:
    with pytest.raises(MessageError):
        unpack_messages(frame)


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_damaged_batch_is_never_taken(at: int, flip: int) -> None:
    frame = bytearray(pack_messages([MESSAGES[2]]))
    frame[at % len(frame)] ^= flip
    try:
        [message] = unpack_messages(bytes(frame))
    except (MessageError, ValueError):
        return
    assert not isinstance(message, Append) or message.batches == MESSAGES[2].batches


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(frame: bytes) -> None:
    with contextlib.suppress(MessageError):
        unpack_messages(frame)


@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(1, 50), st.integers(1, 400))
def test_bodies_come_back_whatever_the_frames_and_the_pieces_they_arrive_in(
    sent: list[bytes], frame_bytes: int, piece_bytes: int
) -> None:
    stream = b"".join(framed(body, frame_bytes) for body in sent)
    reader = FrameReader(frame_bytes, 300)
    pieces = (stream[at : at + piece_bytes] for at in range(0, len(stream), piece_bytes))
    assert [body for piece in pieces for body in reader.feed(piece)] == sent


@pytest.mark.parametrize(
    "stream",
    [
        framed(bytes(101), 50),
        framed(bytes(51), 51),
        CONTINUES.to_bytes(4, "big") * 10_000,
    ],
)
def test_a_reader_takes_no_frame_and_no_body_above_its_limits(stream: bytes) -> None:
    with pytest.raises(MessageError):
        list(FrameReader(50, 100).feed(stream))


def test_messages_of_one_turn_are_split_by_their_records_and_stay_in_order() -> None:
    large = Append(0, 4, KEY, 7, 3, (Batch(7, 3, 0, ((b"k", bytes(3 << 20)),)),), 7, 12)
    messages = [MESSAGES[0], large, MESSAGES[1], large, large, MESSAGES[3]]
    packed = list(bodies(messages))
    assert [m for body in packed for m in unpack_messages(body)] == messages
    assert [len(unpack_messages(body)) for body in packed] == [3, 1, 2]
    assert without_payload(messages) == [MESSAGES[0], MESSAGES[1], MESSAGES[3]]
