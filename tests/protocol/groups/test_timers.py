"""Timers against the simplest model: a dictionary of deadlines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.groups.timers import TimerKey, TimerKind, Timers

KIND = TimerKind.SESSION
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 5), st.integers(0, 100)),
        st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("shift_deadlines"), st.just(0), st.integers(1, 50)),
        st.tuples(st.just("wait"), st.just(0), st.integers(0, 60)),
    ),
    max_size=120,
)


@given(STEPS)
def test_every_timer_runs_once_at_its_deadline_and_in_order(
    steps: list[tuple[str, int, int]],
) -> None:
    timers, model, now = Timers(), {}, 0
    for step, number, value in steps:
        name = str(number)
        if step == "set":
            timers.set(KIND, "g", name, now + value)
            model[name] = now + value
        elif step == "cancel":
            timers.cancel(KIND, "g", name)
            model.pop(name, None)
        elif step == "shift_deadlines":
            timers.shift_deadlines(value)
            model = {key: deadline + value for key, deadline in model.items()}
            now += value
        else:
            end = now + value
            while (wake := timers.next_deadline()) is not None and wake <= end:
                assert wake <= min(model.values())
                now = max(now, wake)
                ran = []
                mark = timers.mark()
                while (key := timers.pop_due(now, mark)) is not None:
                    ran.append(key.member_id)
                due = sorted((model.pop(key), key) for key in list(model) if model[key] <= now)
                assert sorted(ran) == sorted(key for _, key in due)
            now = end
            assert all(deadline > now for deadline in model.values())
        assert len(timers) == len(model)
        for key, deadline in model.items():
            assert timers.deadline(KIND, "g", key) == deadline


def test_a_deadline_that_moves_on_and_on_costs_no_heap_entries() -> None:
    timers = Timers()
    for now in range(10_000):
        timers.set(KIND, "g", "m", now + 1_000)
    assert len(timers._heap) == 1


def test_stale_entries_do_not_pile_up() -> None:
    timers = Timers()
    for now in range(10_000):
        timers.set(KIND, "g", str(now), now + 1_000_000)
        timers.cancel(KIND, "g", str(now))
    assert len(timers._heap) < 200


def test_a_timer_set_for_this_moment_waits_for_the_next_round() -> None:
    timers = Timers()
    timers.set(KIND, "g", "first", 10)
    mark = timers.mark()
    assert timers.pop_due(10, mark) == TimerKey(KIND, "g", "first")
    timers.set(KIND, "g", "second", 10)
    assert timers.pop_due(10, mark) is None
    assert timers.next_deadline() == 10
    assert timers.pop_due(10, timers.mark()) == TimerKey(KIND, "g", "second")
