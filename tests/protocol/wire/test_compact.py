"""Kafka's compact types, read as they were written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.wire.compact import blob, read_string, read_uvarint, string, uvarint


@given(st.integers(0, 2**32 - 1))
def test_varints_are_read_as_they_were_written(value: int) -> None:
    assert read_uvarint(b"x" + uvarint(value), 1) == (value, 1 + len(uvarint(value)))


@given(st.text(max_size=300))
def test_strings_are_read_as_they_were_written(text: str) -> None:
    assert read_string(string(text), 0) == (text, len(string(text)))
    assert blob(text.encode()) == string(text)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 6])
def test_a_varint_that_does_not_end_is_refused(data: bytes) -> None:
    with pytest.raises(IndexError):
        read_uvarint(data, 0)
