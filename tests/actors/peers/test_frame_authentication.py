"""What one end of a link receives is what the other sent, in order, or the link is closed."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.peers import frame_authentication
from actors.peers.frame_authentication import (
    DIGEST_BYTES,
    SIGNED_BYTES_MAX,
    FrameSigner,
    FrameVerifier,
)
from actors.peers.handshake import CALLEE, CALLER, RefusedError, frame_key, hkdf
from storage.peer_packing import FRAME_BYTES_MAX, LENGTH_BYTES, framed
from tests.actors.peers.memory_links import ends, frames_in, opened, pass_on

FRAME_MAX = 300
"""In these tests a frame is short, so that what follows soon fills one whose length was changed."""

BODIES = st.lists(st.binary(max_size=40), min_size=2, max_size=5)
Tamper = Callable[[list[bytes], int, st.DataObject], tuple[list[bytes], int]]


@pytest.fixture(scope="module", autouse=True)
def loop() -> Iterator[None]:
    """Links need an event loop, though nothing here waits."""
    with asyncio.Runner() as runner:
        asyncio._set_running_loop(runner.get_loop())
        yield
        asyncio._set_running_loop(None)


def flip(frames: list[bytes], at: int, data: st.DataObject) -> tuple[list[bytes], int]:
    changed = bytearray(frames[at])
    bit = data.draw(st.integers(0, 8 * len(changed) - 1))
    changed[bit // 8] ^= 1 << bit % 8
    return [*frames[:at], bytes(changed), *frames[at + 1 :]], at


def drop(frames: list[bytes], at: int, data: st.DataObject) -> tuple[list[bytes], int]:
    return frames[:at] + frames[at + 1 :], at


def shorten(frames: list[bytes], at: int, data: st.DataObject) -> tuple[list[bytes], int]:
    keep = data.draw(st.integers(1, len(frames[at]) - 1))
    return [*frames[:at], frames[at][:keep], *frames[at + 1 :]], at


def repeat(frames: list[bytes], at: int, data: st.DataObject) -> tuple[list[bytes], int]:
    later = data.draw(st.integers(at + 1, len(frames)))
    return [*frames[:later], frames[at], *frames[later:]], later


def swap(frames: list[bytes], at: int, data: st.DataObject) -> tuple[list[bytes], int]:
    other = data.draw(st.integers(0, len(frames) - 1).filter(lambda one: one != at))
    first, second = sorted((at, other))
    moved = list(frames)
    moved[first], moved[second] = moved[second], moved[first]
    return moved, first


def of_another_link(frames: list[bytes], at: int, data: st.DataObject) -> tuple[list[bytes], int]:
    caller, callee = opened()
    foreign = [caller.sent(b"other") for _ in range(at + 1)][at]
    caller.close()
    callee.close()
    return [*frames[:at], foreign, *frames[at:]], at


def forge(frames: list[bytes], at: int, data: st.DataObject) -> tuple[list[bytes], int]:
    content = framed(b"forged") + data.draw(st.binary(max_size=2 * DIGEST_BYTES))
    return [*frames[:at], framed(content), *frames[at:]], at


@pytest.mark.parametrize(
    "tamper", [flip, drop, shorten, repeat, swap, of_another_link, forge], ids=lambda f: f.__name__
)
@given(bodies=BODIES, data=st.data())
def test_frames_that_were_tampered_with_close_the_link(
    tamper: Tamper, bodies: list[bytes], data: st.DataObject
) -> None:
    caller, callee = opened()
    callee.link._frames.frame_bytes_max = callee.link._frames.body_bytes_max = FRAME_MAX
    frames = [caller.sent(body) for body in bodies]
    changed, first = tamper(frames, data.draw(st.integers(0, len(frames) - 1)), data)
    after = [caller.sent(b"later") for _ in range(FRAME_MAX // len(b"later"))]
    stream = b"".join(changed + after)
    cuts = sorted({0, *data.draw(st.lists(st.integers(0, len(stream)), max_size=3)), len(stream)})
    for begin, end in pairwise(cuts):
        callee.link.data_received(stream[begin:end])
    assert callee.owner.bodies == bodies[:first]
    assert len(callee.owner.refusals) == 1
    assert callee.wire.is_closed
    caller.close()
    callee.close()


@given(bodies=BODIES, from_caller=st.booleans())
def test_frames_that_come_back_to_their_sender_close_the_link(
    bodies: list[bytes], from_caller: bool
) -> None:
    pair = opened()
    sender = pair[not from_caller]
    sender.link.data_received(b"".join(map(sender.sent, bodies)))
    assert sender.owner.bodies == []
    assert len(sender.owner.refusals) == 1
    assert sender.wire.is_closed
    for end in pair:
        end.close()


@given(data=st.data())
def test_a_change_of_any_bit_of_the_handshake_opens_no_link(data: st.DataObject) -> None:
    """Also of the verdicts: a coordinator stops when a peer calls its directory an old copy."""
    caller, callee = ends()
    step = data.draw(st.integers(0, 4))
    for number in range(5):
        sender, receiver = (caller, callee) if number % 2 == 0 else (callee, caller)
        sent = bytearray(sender.wire.take())
        if number == step and sent:
            bit = data.draw(st.integers(0, 8 * len(sent) - 1))
            sent[bit // 8] ^= 1 << bit % 8
            receiver.link.data_received(bytes(sent))
            assert not receiver.link.is_open
        else:
            receiver.link.data_received(bytes(sent))
    assert not (caller.link.is_open and callee.link.is_open)
    assert caller.owner.stale == callee.owner.stale == 0
    caller.close()
    callee.close()


@given(bodies=st.lists(st.binary(max_size=100), max_size=8), from_caller=st.booleans())
def test_what_is_not_tampered_with_arrives_in_order(bodies: list[bytes], from_caller: bool) -> None:
    pair = opened()
    sender, receiver = pair if from_caller else pair[::-1]
    for body in bodies:
        sender.link.send(body)
    pass_on(*pair)
    assert receiver.owner.bodies == bodies
    assert sender.owner.refusals == receiver.owner.refusals == []
    for end in pair:
        end.close()


@pytest.mark.parametrize(
    ("body_bytes", "frames"),
    [(0, 1), (1, 1), (1_000, 1), (FRAME_BYTES_MAX, 1), (FRAME_BYTES_MAX + 1, 2)],
)
def test_a_frame_costs_one_digest_and_24_bytes(
    body_bytes: int, frames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = 0
    usual = frame_authentication._Digests.next

    def counted(self: Any, content: bytes | memoryview) -> bytes:
        nonlocal digests
        digests += 1
        return usual(self, content)

    caller, callee = opened()
    monkeypatch.setattr(frame_authentication._Digests, "next", counted)
    sent = caller.sent(bytes(body_bytes))
    assert (len(frames_in(sent)), digests) == (frames, frames)
    assert len(sent) == body_bytes + frames * (2 * LENGTH_BYTES + DIGEST_BYTES)
    callee.link.data_received(sent)
    assert callee.owner.bodies == [bytes(body_bytes)]
    assert digests == 2 * frames
    for end in (caller, callee):
        end.close()


def test_a_peer_may_not_send_a_longer_frame_than_one_digest_covers() -> None:
    caller, callee = opened()
    assert len(frames_in(caller.sent(bytes(3 * FRAME_BYTES_MAX)))) == 3
    callee.link.data_received((SIGNED_BYTES_MAX + 1).to_bytes(LENGTH_BYTES, "big"))
    assert callee.owner.refusals == [
        f"it sends a frame of {SIGNED_BYTES_MAX + 1} bytes, more than {SIGNED_BYTES_MAX}"
    ]
    for end in (caller, callee):
        end.close()


def test_each_link_each_direction_and_each_version_has_a_key_of_its_own() -> None:
    keys = {
        frame_key(secret, role, caller, callee, version)
        for secret in (b"s" * 32, b"t" * 32)
        for role in (CALLER, CALLEE)
        for caller in (b"a", b"ab")
        for callee in (b"bc", b"c")
        for version in (5, 6)
    }
    assert len(keys) == 32


def test_a_key_is_derived_as_rfc_5869_has_it() -> None:
    """Its first test case, the first block of the output."""
    found = hkdf(bytes([0x0B] * 22), bytes(range(13)), bytes(range(0xF0, 0xFA)))
    assert found.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"


def test_a_digest_is_keyed_blake2b_over_number_and_content() -> None:
    key = b"k" * 32
    signer = FrameSigner(key)
    for number in range(3):
        frame = signer.signed(b"content")
        wanted = hashlib.blake2b(
            number.to_bytes(8, "big") + b"content", key=key, digest_size=DIGEST_BYTES
        )
        assert frame[-DIGEST_BYTES:] == wanted.digest()


def test_a_refused_frame_is_said_in_one_sentence() -> None:
    verifier = FrameVerifier(b"k" * 32)
    for frame in (b"", b"short", bytes(DIGEST_BYTES), bytes(100)):
        with pytest.raises(RefusedError, match=r"^a frame is not what its peer sent next"):
            verifier.verified(frame)
