"""Streams groups: what is told of them is what a model of Kafka's coordinator did."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.protocol.watching.checking import check_cleaned, check_whole
from tests.protocol.watching.kafka_streams import KafkaStreamsGroup

STEPS = 40


def lived(seed: int) -> KafkaStreamsGroup:
    group = KafkaStreamsGroup(random.Random(seed))
    for _ in range(STEPS):
        group.step()
    return group


@settings(max_examples=examples(300), deadline=None)
@given(seed=st.integers(0, 1 << 32))
@example(seed=474918)  # a timer that began again
def test_all_that_is_true_is_told(seed: int) -> None:
    check_whole(lived(seed))


@settings(max_examples=examples(300), deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    read=st.floats(0, 1),
    looked_at=st.floats(0, 1),
    tombstones=st.booleans(),
)
def test_what_is_told_of_a_cleaned_log_is_true(
    seed: int, read: float, looked_at: float, tombstones: bool
) -> None:
    check_cleaned(lived(seed), read, looked_at, tombstones=tombstones)
