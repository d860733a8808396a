"""Deadlines run with the machine's steady clock, and a process that stood still notices."""

import pytest

from actors.clock import BEAT_MS, STALL_MS, Clock


class Machine:
    """A steady clock and a wall clock that a test moves."""

    def __init__(self) -> None:
        self.steady_ms = 5_000
        self.wall_ms = 1_700_000_000_000
        self.clock = Clock(lambda: self.steady_ms, lambda: self.wall_ms)
        self.jumps: list[int] = []
        self.clock.upon_jump = self.jumps.append

    def runs(self, ms: int) -> None:
        self.steady_ms += ms
        self.wall_ms += ms


def test_the_time_is_the_wall_clocks_at_the_start_and_runs_with_the_steady_one() -> None:
    machine = Machine()
    assert machine.clock.now() == 1_700_000_000_000
    machine.runs(250)
    assert machine.clock.now() == 1_700_000_000_250


@pytest.mark.parametrize("set_by_ms", [3_600_000, -3_600_000, 30 * 86_400_000, 16, -16])
def test_setting_the_wall_clock_moves_no_deadline_and_is_told_once(set_by_ms: int) -> None:
    """S10: a lease is not believed after the two clocks have moved apart."""
    machine = Machine()
    machine.runs(100)
    machine.wall_ms += set_by_ms
    assert machine.clock.now() == 1_700_000_000_100
    assert machine.jumps == [set_by_ms]
    machine.runs(BEAT_MS)
    machine.clock.beat()
    assert machine.clock.now() == 1_700_000_000_100 + BEAT_MS
    assert machine.clock.wall() == machine.wall_ms
    assert machine.jumps == [set_by_ms]


def test_a_machine_that_stood_still_with_its_steady_clock_is_noticed_before_the_time_is_told() -> (
    None
):
    machine = Machine()
    told: list[int] = []
    machine.clock.upon_jump = lambda _: told.append(machine.clock.now())
    machine.wall_ms += 32_000
    told.append(machine.clock.now())
    assert len(told) == 2, "the caller compares the time with a lease next"


def test_a_clock_that_is_slewed_was_not_set() -> None:
    machine = Machine()
    for _ in range(1_000):
        machine.runs(BEAT_MS)
        machine.wall_ms += 5
        machine.clock.now()
        machine.clock.beat()
    assert machine.jumps == []


def test_a_process_put_off_between_two_reads_is_no_jump() -> None:
    reads = iter([0, 0, 0, 20, 20, 20, 20, 20, 20, 20])  # a pause after the first read of now()
    wall = iter([1_000, 1_020, 1_020, 1_020])
    clock = Clock(lambda: next(reads), lambda: next(wall))
    jumps: list[int] = []
    clock.upon_jump = jumps.append
    clock.now()
    assert jumps == []


def test_a_process_that_beats_in_time_has_not_stood_still() -> None:
    machine = Machine()
    for _ in range(5):
        machine.runs(BEAT_MS + STALL_MS - 1)
        assert machine.clock.beat() == 0


def test_a_stall_is_returned_once_to_the_first_caller() -> None:
    machine = Machine()
    machine.runs(BEAT_MS + 10_000)
    assert machine.clock.stalled_ms() == 10_000
    assert machine.clock.stalled_ms() == 0
    assert machine.clock.beat() == 0


def test_a_second_stall_is_told_again() -> None:
    machine = Machine()
    machine.runs(BEAT_MS + 2_000)
    assert machine.clock.beat() == 2_000
    machine.runs(BEAT_MS + 3_000)
    assert machine.clock.beat() == 3_000
