"""Subscriptions and assignments inside JoinGroup and SyncGroup."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.wire.embedded import (
    EmbeddedSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

PARTITIONS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 99)), unique=True)
WHOLE = EmbeddedSubscription(
    topics=("a", "b"),
    user_data=b"mine",
    owned_partitions=(("a", 0), ("a", 1), ("b", 0)),
    generation_id=7,
    rack_id="r",
)


@pytest.mark.parametrize(
    ("version", "known"),
    [
        (0, EmbeddedSubscription(topics=("a", "b"), user_data=b"mine")),
        (
            1,
            EmbeddedSubscription(
                topics=("a", "b"), user_data=b"mine", owned_partitions=WHOLE.owned_partitions
            ),
        ),
        (3, WHOLE),
    ],
)
def test_a_subscription_says_what_its_version_can(
    version: int, known: EmbeddedSubscription
) -> None:
    assert decode_subscription(encode_subscription(WHOLE, version)) == known


def test_a_subscription_newer_than_ours_is_read_as_our_newest() -> None:
    newer = b"\x00\x09" + encode_subscription(WHOLE)[2:] + b"something new"
    assert decode_subscription(newer) == WHOLE


def test_topics_alone_make_a_subscription() -> None:
    assert decode_subscription(encode_subscription(["b", "a"])) == EmbeddedSubscription(
        topics=("a", "b")
    )


@given(PARTITIONS, st.none() | st.binary(max_size=9), st.integers(0, 3))
def test_an_assignment_reads_as_it_was_written(
    partitions: list[tuple[str, int]], user_data: bytes | None, version: int
) -> None:
    read = decode_assignment(encode_assignment(partitions, user_data, version))
    assert read is not None
    assert sorted(read) == sorted(partitions)


@pytest.mark.parametrize("blob", [b"", b"\0", b"\xff\xff", b"\0\1\0\0", b"\0\3\x7f\xff\xff\xff"])
def test_a_blob_that_is_neither_is_none(blob: bytes) -> None:
    assert decode_subscription(blob) is None
    assert decode_assignment(blob) is None


@given(st.binary(max_size=40))
def test_garbage_raises_nothing(blob: bytes) -> None:
    decode_subscription(blob)
    decode_assignment(blob)


def test_the_bytes_are_kafkas() -> None:
    # Version, topics, user data (null), owned partitions, generation, rack (null).
    assert encode_subscription(["t"]) == bytes.fromhex(
        "000300000001000174ffffffff00000000ffffffffffff"
    )
    assert encode_assignment([("t", 1), ("t", 2)]) == bytes.fromhex(
        "000300000001000174000000020000000100000002ffffffff"
    )
