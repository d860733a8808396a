"""Deadlines run with the machine's steady clock, and a process that stood still notices."""

from actors.clock import BEAT_MS, STALL_MS, Clock


class Machine:
    """A steady clock and a wall clock that a test moves."""

    def __init__(self) -> None:
        self.steady_ms = 5_000
        self.wall_ms = 1_700_000_000_000
        self.clock = Clock(lambda: self.steady_ms, lambda: self.wall_ms)

    def runs(self, ms: int) -> None:
        self.steady_ms += ms
        self.wall_ms += ms


def test_the_time_is_the_wall_clocks_at_the_start_and_runs_with_the_steady_one() -> None:
    machine = Machine()
    assert machine.clock.now() == 1_700_000_000_000
    machine.runs(250)
    assert machine.clock.now() == 1_700_000_000_250


def test_setting_the_wall_clock_moves_no_deadline_at_once() -> None:
    machine = Machine()
    machine.wall_ms += 3_600_000
    machine.runs(BEAT_MS)
    machine.clock.beat()
    assert machine.clock.now() == 1_700_000_000_000 + BEAT_MS + 1


def test_a_drift_is_made_up_by_one_millisecond_per_beat() -> None:
    machine = Machine()
    machine.wall_ms -= 3
    for _ in range(10):
        machine.runs(BEAT_MS)
        machine.clock.beat()
    assert machine.clock.now() == machine.wall_ms


def test_a_process_that_beats_in_time_has_not_stood_still() -> None:
    machine = Machine()
    for _ in range(5):
        machine.runs(BEAT_MS + STALL_MS - 1)
        assert machine.clock.beat() == 0


def test_a_stall_is_told_once_and_by_whoever_asks_first() -> None:
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
