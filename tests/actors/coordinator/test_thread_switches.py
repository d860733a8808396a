"""The event loop waits shortly for a thread that computes."""

import sys
from collections.abc import Iterator

import pytest

from actors.coordinator.thread_switches import SWITCH_S, favour_event_loop


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize(("before", "after"), [(0.005, SWITCH_S), (0.0001, 0.0001)])
def test_the_switch_interval_becomes_short_and_a_shorter_one_stays(
    before: float, after: float
) -> None:
    sys.setswitchinterval(before)
    favour_event_loop()
    assert sys.getswitchinterval() == pytest.approx(after, abs=2e-6)
