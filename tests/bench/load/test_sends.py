"""What counts as late of the requests that simulated members send."""

import asyncio
from types import SimpleNamespace

import pytest

from bench.client.due_times import LATE_MS, SendCounts, next_due_ms
from bench.client.paced_work import PER_TURN
from bench.load import driver as drivers
from bench.load.driver import CoordinatorLookups, MemberDriver
from protocol.members.client import State
from protocol.members.requests import OFFSET_COMMIT


@pytest.mark.parametrize(
    ("due_ms", "now_ms", "late"),
    [
        (None, 1_000, 0),
        (1_000, 1_000, 0),
        (1_000, 1_000 + LATE_MS, 0),
        (1_000, 1_001 + LATE_MS, 1),
        (2_000, 1_000, 0),
    ],
)
def test_a_request_is_late_if_it_was_due_long_before(due_ms, now_ms, late):
    counts = SendCounts()
    counts.count(due_ms, now_ms)
    assert counts == SendCounts(sent=1, late=late)


@pytest.mark.parametrize(
    ("due_ms", "now_ms", "next_ms"),
    [(0, 5_300, 6_300), (5_000, 5_000, 6_000), (5_000, 5_300, 6_000), (5_000, 7_300, 8_000)],
)
def test_a_late_commit_does_not_shift_the_times_of_later_ones(due_ms, now_ms, next_ms):
    assert next_due_ms(due_ms, 1_000, now_ms) == next_ms


class Beating:
    """A member that heartbeats every second; the answer to its last request has come."""

    state = State.STABLE
    is_done = False

    def __init__(self) -> None:
        self.next_ms = 0

    def poll(self, now):
        if now < self.next_ms:
            return []
        self.next_ms = now + 1_000
        return [SimpleNamespace(to=None)]

    def next_deadline(self):
        return self.next_ms

    def subscribe(self, _topics):
        self.next_ms = 0


class Clock:
    now = 50_000

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(drivers, "now_ms", clock)
    return clock


def test_a_heartbeat_is_late_when_its_process_stood_still(clock):
    assert driven(clock, [("run", 0), ("run", 1_000), ("run", 1_100)]) == SendCounts(3, 0)
    assert driven(clock, [("run", 0), ("run", 1_000), ("run", 1_101)]) == SendCounts(3, 1)


def test_a_start_is_late_by_the_plan_and_what_a_step_of_the_plan_asks_is_not(clock):
    assert driven(clock, [("start", 101)]) == SendCounts(1, 1)
    assert driven(clock, [("start", 0), ("subscribe", 5), ("run", 1_000)]) == SendCounts(3, 0)


def test_who_stands_still_as_planned_is_not_late(clock):
    assert driven(clock, [("run", 0), ("freeze", 0), ("thaw", 9_000)]) == SendCounts(2, 0)


@pytest.mark.parametrize(
    ("waited_ms", "late", "held"), [(None, 0, 0), (900, 0, 0), (899, 0, 1), (2_000, 0, 0)]
)
def test_a_request_was_held_back_if_it_waited_long_for_an_answer(waited_ms, late, held):
    counts = SendCounts()
    counts.count(5_000, 900 + LATE_MS, waited_ms)
    assert counts == SendCounts(sent=1, late=late, held=held)
    counts.count(0, 900 + LATE_MS, waited_ms)
    assert counts == SendCounts(sent=2, late=late + 1, held=held), "none is counted twice"


class Committing(Beating):
    """A member that commits and heartbeats, one request after the other."""

    partitions = (("t", 0),)

    def __init__(self) -> None:
        super().__init__()
        self.commits = False
        self.in_flight = None
        self.overdue_ms = 0

    def commit(self, _offsets):
        self.commits = True

    def poll(self, now):
        if self.in_flight is not None or not (self.commits or now >= self.next_ms):
            return []
        api_key = OFFSET_COMMIT if self.commits else 12
        if self.commits:
            self.commits = False
        else:
            self.next_ms = now + 1_000
        self.overdue_ms = now + 30_000
        self.in_flight = SimpleNamespace(message=SimpleNamespace(__api_key__=api_key), to=None)
        return [self.in_flight]

    def receive(self, _request, _response, _now):
        self.in_flight = None

    def next_deadline(self):
        return self.next_ms if self.in_flight is None else self.overdue_ms


@pytest.mark.parametrize(
    ("interval_ms", "answers_ms", "held"),
    [
        (500, (0, 540, 0), 0),  # the second commit waited for the heartbeat's answer, but not long
        (500, (0, 1_400, 0), 1),  # longer
        (500, (0, 540, 1_200), 1),  # the third one waited for the second one's answer
        (500, (0, 1_400, 1_200), 2),
        (5_000, (100, 0, 0), 0),
        (5_000, (101, 0, 0), 1),  # the heartbeat waited for the first commit's answer
    ],
)
def test_what_is_due_while_an_answer_is_missing_is_counted(clock, interval_ms, answers_ms, held):
    """The first commit is due with the first heartbeat, and sent before it."""
    sends = SendCounts()
    lookups = SimpleNamespace(ask=lambda *_: ("localhost", 1), did_not_answer=lambda _: None)

    async def drive() -> None:
        driver = MemberDriver(Committing(), lookups, interval_ms, sends)
        driver.step()
        for after_ms in answers_ms:
            clock.now += after_ms
            if driver._request is not None:
                driver.answered(driver._request, None)
        driver.end()

    asyncio.run(drive())
    assert sends.late == 0
    assert sends.held == held


def driven(clock, steps):
    """Take steps, each some milliseconds after the one before; return what was sent."""
    sends = SendCounts()
    lookups = SimpleNamespace(ask=lambda *_: ("localhost", 1), did_not_answer=lambda _: None)

    async def drive() -> None:
        driver = MemberDriver(Beating(), lookups, 0, sends)
        for what, after_ms in steps:
            due_ms = clock.now
            clock.now += after_ms
            driver._request = None  # it was answered
            {
                "run": driver.step,
                "start": lambda due_ms=due_ms: driver.step(due_ms),
                "subscribe": lambda: driver.subscribe(()),
                "freeze": driver.freeze,
                "thaw": driver.thaw,
            }[what]()
        driver.end()

    asyncio.run(drive())
    return sends


class Connected(Beating):
    """A member that is told when its connection ends."""

    def __init__(self):
        super().__init__()
        self.told = []

    def disconnected(self, now_ms):
        self.told.append(now_ms)


def test_members_hear_a_few_at_a_time_that_their_connections_ended(clock):
    """A node died: what due members send comes between."""
    lookups = CoordinatorLookups(())
    members = [Connected() for _ in range(3 * PER_TURN)]

    async def drive() -> None:
        drivers = [MemberDriver(member, lookups, 0) for member in members]
        for driver in drivers:
            driver._send = lambda _: None
            driver._broken()
        assert not any(member.told for member in members)
        drivers[-1].step()  # its timer is due before its turn
        drivers[-2].freeze()
        told = [1]
        while len(members) - 1 > sum(told):
            await asyncio.sleep(0)
            heard = sum(bool(member.told) for member in members)
            told.append(heard - sum(told))
        assert max(told) <= PER_TURN
        drivers[-2].thaw()
        for driver in drivers:
            driver.end()

    asyncio.run(drive())
    assert [len(member.told) for member in members] == [1] * len(members)
