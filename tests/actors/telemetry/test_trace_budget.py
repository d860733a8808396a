"""Traces that nobody has asked for: a burst at once, and then so many a second."""

from actors.telemetry.trace_budget import BURST_MAX, TRACES_PER_S, TraceBudget


def taken(budget: TraceBudget) -> int:
    count = 0
    while budget.take():
        count += 1
    return count


def test_a_burst_is_followed_by_so_many_a_second() -> None:
    now_s = [0.0]
    budget = TraceBudget(lambda: now_s[0])
    assert taken(budget) == BURST_MAX
    now_s[0] += 1
    assert taken(budget) == TRACES_PER_S
    now_s[0] += 0.5 / TRACES_PER_S
    assert taken(budget) == 0
    now_s[0] += 3_600
    assert taken(budget) == BURST_MAX
