"""A write counts with the time that it waited for its disk, and not with that of others."""

import pytest

from actors.coordinator.write_time import WriteTime


class Clocks:
    """What a thread's clocks show."""

    def __init__(self) -> None:
        self.s = self.cpu_s = 0.0
        self.waits = 0
        self.time = WriteTime(lambda: self.s, lambda: self.cpu_s, lambda: self.waits)

    def write(self, took_s: float, cpu_s: float, waits: int = 0) -> float:
        self.time.begin()
        self.s += took_s
        self.cpu_s += cpu_s
        self.waits += waits
        return self.time.end()


@pytest.mark.parametrize(
    ("took_s", "cpu_s", "waits", "counted_s"),
    [(0.001, 0.001, 0, 0.001), (0.1, 0.001, 0, 0.001), (0.1, 0.001, 1, 0.1)],
    ids=["quick", "others had the CPU", "waited for the disk"],
)
def test_a_write_counts(took_s: float, cpu_s: float, waits: int, counted_s: float) -> None:
    clocks = Clocks()
    assert clocks.write(took_s, cpu_s, waits) == pytest.approx(took_s)
    assert clocks.time.take() == pytest.approx(counted_s)


def test_the_writes_of_a_turn_are_added_up_and_counted_once() -> None:
    clocks = Clocks()
    clocks.write(0.002, 0.002)
    clocks.write(0.05, 0.001, 3)
    clocks.write(0.05, 0.001)
    assert clocks.time.take() == pytest.approx(0.053)
    assert clocks.time.take() == 0.0
