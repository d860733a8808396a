"""Reads of committed offsets where the clocks of members' machines differ."""

import pytest

pytest.importorskip("pyspark")

from bench.histories.offsets import lost_commits, rolled_back
from bench.histories.schema import FETCHED, HistoryRow
from protocol.members.history import MemberHistoryKind as Kind
from tests.bench.histories.written import WrittenGroup, history_of

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def read(group, at_ms, **offsets):
    there = {f"t-{name[1:]}": offset for name, offset in offsets.items()}
    group.rows.append(
        HistoryRow(FETCHED, at_ms + 5, asked_ms=at_ms, group_id=group.name, offsets=there)
    )


def committed(group, at_ms, offset):
    group.row(Kind.COMMITTED, at_ms, "a", generation=1, offsets={"t-0": offset})


def behind():
    """Return a group whose next owner's clock is 7 ms behind."""
    group = WrittenGroup("behind")
    committed(group, 100_000, 100_000)
    read(group, 150_000, t0=100_000)
    read(group, 160_000, t0=99_993)
    return group


def asked_first():
    """Return a group that was read before the commit, by another clock."""
    group = WrittenGroup("asked-first")
    committed(group, 100_000, 50)
    committed(group, 150_000, 9_000)
    read(group, 150_004, t0=50)
    return group


@pytest.mark.parametrize(("clock_error_ms", "is_found"), [(0, True), (10, False)])
def test_what_may_come_of_clocks_that_differ_is_no_lost_commit(session, clock_error_ms, is_found):
    history = history_of(session, (behind(), asked_first()), clock_error_ms=clock_error_ms)
    lost = {row["group_id"] for row in lost_commits(history).collect()}
    assert lost == ({"behind", "asked-first"} if is_found else set())
    back = {row["group_id"] for row in rolled_back(history).collect()}
    assert back == ({"behind"} if is_found else set())
