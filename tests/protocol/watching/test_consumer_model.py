"""Consumer groups: what is told of them is what a model of Kafka's coordinator did."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.protocol.watching.checking import check_cleaned, check_whole
from tests.protocol.watching.kafka_group import KafkaGroup

STEPS = 30


def lived(seed: int) -> KafkaGroup:
    group = KafkaGroup(random.Random(seed))
    for _ in range(STEPS):
        group.step()
    return group


@settings(max_examples=examples(300), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_all_that_is_true_is_told(seed: int) -> None:
    check_whole(lived(seed))


@settings(max_examples=examples(300), deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    read=st.floats(0, 1),
    looked_at=st.floats(0, 1),
    tombstones=st.booleans(),
)
@example(seed=3112, read=0.38, looked_at=0.353, tombstones=False)
def test_what_is_told_of_a_cleaned_log_is_true(
    seed: int, read: float, looked_at: float, tombstones: bool
) -> None:
    """In the example the cleaner takes the end of a group before it is read."""
    check_cleaned(lived(seed), read, looked_at, tombstones=tombstones)
