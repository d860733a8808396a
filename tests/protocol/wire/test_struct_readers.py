"""The readers made for each class read what the careful reader reads, or leave it to that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol

from protocol.wire import readers
from protocol.wire.apis import API
from protocol.wire.convert import blank
from protocol.wire.embedded import encode_subscription
from protocol.wire.kafka_4_4.index import request_shape
from protocol.wire.struct_readers import struct_reader
from protocol.wire.writers import encoder
from tests.effort import examples
from tests.protocol.wire.strategies import messages

SHAPES = [
    shape
    for api in API.values()
    for version in range(api.min_version, api.max_version + 1)
    if (shape := request_shape(api.key, version)).__flexible__
]
QUICK = settings(max_examples=examples(10), suppress_health_check=list(HealthCheck), deadline=None)
LENGTHS = (b"\x80\x80\x80\x80\x04", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\x80\0")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.__name__}-v{s.__version__}")
@QUICK
@given(data=st.data())
def test_what_is_read_is_what_the_careful_reader_reads(shape: Any, data: st.DataObject) -> None:
    written = b"xy" + encoder(shape)(data.draw(messages(shape)))
    at = data.draw(st.integers(2, len(written)))
    end = data.draw(st.integers(at, min(at + 2, len(written))))
    change = data.draw(st.sampled_from((b"", *LENGTHS)) | st.binary(max_size=2))
    for read in (written, written[:at], written[:at] + change + written[end:]):
        try:
            message, _ = struct_reader(shape)(read, 2)
        except Exception:
            continue
        assert message == readers._read_carefully(shape, read, 2)


def test_a_join_with_a_subscription_is_not_unusual() -> None:
    offered = JoinGroupRequestProtocol(name="range", metadata=encode_subscription(["t"]))
    message = blank(JoinGroupRequest, group_id="g", member_id="m" * 200, protocols=(offered,) * 2)
    written = encoder(JoinGroupRequest)(message)
    assert readers.HUGE_CLAIM.search(written)
    assert struct_reader(JoinGroupRequest)(written, 0) == (message, len(written))


@given(
    st.lists(
        st.binary(max_size=4) | st.sampled_from([b"\xff\xff\xff\x20", b"\x80\x80\x80\x1f"]),
        max_size=3,
    ),
    st.integers(0, readers.SCANNED_BYTES),
    st.integers(0, 20),
)
def test_a_claim_is_found_in_a_long_message_as_in_a_short_one(
    pieces: list[bytes], at: int, offset: int
) -> None:
    filling = bytes(at), bytes(readers.SCANNED_BYTES - at + 1)
    data = b"".join(pieces).join(filling)
    assert len(data) > readers.SCANNED_BYTES
    is_found = readers.HUGE_CLAIM.search(data, offset) is not None
    assert readers._has_huge_claim(data, offset) == is_found
