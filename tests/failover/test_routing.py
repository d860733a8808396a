"""Which partition holds a group, as Kafka's clients and tools compute it."""

import pytest

from failover.routing import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("my-consumer-group", 1513705513),
        ("polygenelubricants", -(1 << 31)),
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
        ("a\U0001f600b", 57_849_694),
    ],
)
def test_the_hash_is_javas_over_utf_16_units(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_the_most_negative_hash_falls_in_partition_0() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_a_negative_hash_counts_by_its_absolute_value() -> None:
    value = java_string_hash("zzzzzzzz")
    assert value < 0
    assert partition_for("zzzzzzzz", 7) == -value % 7
