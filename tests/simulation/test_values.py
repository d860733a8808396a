"""Which reads of a committed offset are explained by which commits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.simulation.checkers.values import Values
from protocol.members.promises import lost_commits

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


@given(answered=st.integers(0, 5), unanswered=st.integers(0, 2), data=st.data())
def test_where_offsets_only_grow_a_lost_commit_is_what_it_is_to_drills(
    answered: int, unanswered: int, data: st.DataObject
) -> None:
    """Each commit is of a larger offset and waits for the answer to the one before it.

    Only the simulator knows that a commit without an answer may be applied after a later one.
    """
    values = Values()
    for offset in range(answered + unanswered):
        values.asked(PLACE, offset, now=10 * offset)
        if offset < answered:
            values.acknowledged(PLACE, offset, now=10 * offset + 5)
    there = data.draw(st.integers(-1, answered + unanswered - 1))
    answers = [(PLACE, offset) for offset in range(answered)]
    lost = list(lost_commits(answers, {} if there < 0 else {PLACE: there}))
    assert bool(values.explain(PLACE, there, began=1_000)) is bool(lost)


def test_a_request_to_delete_a_group_erases_what_is_committed_until_it_is_over() -> None:
    values = Values()
    erasures = values.erases_group("group", now=5)
    for place, start in ((PLACE, 10), (("group", "topic", 1), 30)):
        values.asked(place, start, now=start)
        values.acknowledged(place, start, now=start + 2)
        assert ("is lost" in values.explain(place, -1, began=40)) is erasures.is_over
        erasures.is_over = True
