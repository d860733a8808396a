"""Which reads of a committed offset are explained by which commits."""

import pytest

from failover.simulation.checkers.values import Values

PLACE = ("group", "topic", 0)


@pytest.fixture
def values() -> Values:
    values = Values()
    values.asked(PLACE, 1, now=10)
    values.acknowledged(PLACE, 1, now=12)
    values.asked(PLACE, 2, now=20)
    return values


def test_an_acknowledged_commit_may_be_read(values: Values) -> None:
    assert values.explain(PLACE, 1, began=15) == ""


def test_a_commit_without_an_answer_may_be_read_or_not(values: Values) -> None:
    assert values.explain(PLACE, 2, began=25) == ""
    assert values.explain(PLACE, 1, began=25) == ""


def test_an_acknowledged_commit_is_not_lost(values: Values) -> None:
    assert "is lost" in values.explain(PLACE, -1, began=15)
    values.acknowledged(PLACE, 2, now=30)
    assert "older" in values.explain(PLACE, 1, began=31)


def test_a_read_that_began_before_the_acknowledgement_may_be_older(values: Values) -> None:
    values.acknowledged(PLACE, 2, now=30)
    assert values.explain(PLACE, 1, began=29) == ""


def test_a_refused_commit_is_never_read(values: Values) -> None:
    values.refused(PLACE, 2)
    assert "refused" in values.explain(PLACE, 2, began=25)


def test_what_nobody_committed_is_never_read(values: Values) -> None:
    assert "nobody" in values.explain(PLACE, 99, began=25)
