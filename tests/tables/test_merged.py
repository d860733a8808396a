"""Tables that several modules fill."""

import pytest

from protocol.tables import merged


def test_tables_are_one_mapping_that_nobody_changes() -> None:
    whole = merged({1: "a"}, {2: "b"})
    assert whole == {1: "a", 2: "b"}
    with pytest.raises(TypeError):
        whole[3] = "c"  # type: ignore[index]


def test_two_tables_can_not_claim_one_key() -> None:
    with pytest.raises(ValueError, match="two tables have rows for"):
        merged({1: "a"}, {1: "a"})
