"""A host that records; its ring as a file; the file replayed: the same answers, the same fault."""

from __future__ import annotations

import ast
import pickle
import random
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from failover.recording.dump import About, Dump, read_dump, write_dump
from failover.recording.pickles import NotReadableError, pack, unpack
from failover.recording.recorder import BYTES_MAX, STATE_INTERVAL_MS, Recording
from failover.recording.replay import replay
from failover.requests.memo import LeasedAnswers
from protocol.config import Configs
from protocol.groups.effects import Reply, Request
from protocol.groups.group_types import TABLES
from protocol.groups.modern.hard_state import ModernGroupState
from protocol.groups.modern.reconcile import MemberState
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import encode_request, encode_response
from storage.log import MemoryLog
from tests.failover.apis import asks
from tests.failover.hosts import CLIENT
from tests.failover.working import Working, beat, classic_member, prepare

DESCRIBE = m.DescribeGroupsRequest(groups=("classic", "other"), include_authorized_operations=False)
ROOT = Path(__file__).parents[3]
ABOUT = About(version="1", cluster_id="cluster", node_id=0, at_ms=1)
SECRET = "nobody may read this"
CONFIGS = {BYTES_MAX: "4000000", "cluster.secret": SECRET}


class FramedDriver(Working):
    """A driver whose clients have frames, and that keeps the leases of their answers."""

    def give(self, api_key: int, api_version: int, message: Any) -> int:
        self.tickets += 1
        request = Request(
            ticket=self.tickets,
            api_key=api_key,
            api_version=api_version,
            client=CLIENT,
            message=message,
            frame=encode_request(api_key, api_version, self.tickets, "client", message)[4:],
        )
        self.__dict__.setdefault("asked", {})[self.tickets] = request
        self.turn.receive(request)
        return self.tickets

    def answer(self, reply: Reply) -> None:
        super().answer(reply)
        request = self.__dict__.setdefault("asked", {}).get(reply.ticket)
        recorder = self.host.recorder
        if request is None:
            return
        key, version = request.api_key, request.api_version
        recorder.answered(
            key, reply.ticket, encode_response(key, version, reply.ticket, reply.message)
        )
        if reply.lease is not None:
            self.__dict__["lease"] = reply.lease


def recording_driver(**configs: str) -> FramedDriver:
    driver = FramedDriver(MemoryLog(), configs={**CONFIGS, **configs})
    prepare(driver)
    driver.wait(STATE_INTERVAL_MS)
    return driver


def dumped(driver: Working, recordings: list[Recording]) -> list[Dump]:
    return read_dump(write_dump(recordings, Configs(CONFIGS), ABOUT))


def recorded(driver: Working) -> Dump:
    [dump] = dumped(driver, driver.host.recorder.recordings("for a test"))
    return dump


def a_busy_minute(driver: Working) -> None:
    """Classic and consumer members join, commit, stay away; an assignor's runs come back."""
    member, generation = classic_member(driver, "classic")
    driver.ask(
        8, 8, asks.commit("classic", 5, generation=generation, member_id=member, instance="i")
    )
    for number in range(5):
        driver.ask(68, 1, beat("modern", f"m{number}"))
        driver.work()
        driver.wait(1_000)
    for number in range(4):
        driver.ask(68, 1, beat("modern", f"m{number}", 2))
    driver.ask(15, 5, DESCRIBE)
    driver.wait(60_000)
    driver.work()
    driver.ask(68, 1, beat("modern", "m0"))
    driver.work()


def plant(monkeypatch: pytest.MonkeyPatch, key: int = 12) -> None:
    def broken(ctx: Any, event: Any, now: int) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(TABLES, "handlers", {**TABLES.handlers, key: broken})


def test_the_same_comes_of_the_same_steps() -> None:
    driver = recording_driver()
    a_busy_minute(driver)

    dump = recorded(driver)
    again = replay(dump)

    assert len(dump.steps) > 20
    assert again.differences == []
    assert again.failures == []
    assert again.compared == len([each for each in again.replies if each.ticket > 0]) > 10


def test_a_handler_that_raises_is_dumped_and_raises_again(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = recording_driver()
    a_busy_minute(driver)
    member, generation = classic_member(driver, "classic")
    assert driver.host.recorder.take_faults() == []
    plant(monkeypatch)

    driver.ask(12, 4, asks.heartbeat("classic", generation, member, "i"))

    [dump] = dumped(driver, driver.host.recorder.take_faults())
    assert dump.why.startswith("Request failed: ZeroDivisionError: a bug")
    again = replay(dump)
    assert again.differences == []
    [(number, failure)] = again.failures
    assert isinstance(failure, ZeroDivisionError)
    assert dump.steps[number].outcome.failure.startswith("ZeroDivisionError: a bug")
    assert [step.what for step in dump.steps[number + 1 :]] == ["forget", "replay", "restored"]
    assert driver.host.recorder.take_faults() == []


def test_a_fault_whose_ring_was_cleared_in_the_same_turn_is_forgotten() -> None:
    driver = recording_driver()
    a_busy_minute(driver)
    recorder = driver.host.recorder
    for tape in recorder.tapes.values():
        recorder.fault(tape, "a bug")
        tape.clear("its state is too large")
    assert recorder.take_faults() == []


def test_code_that_is_mended_shows_where_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = recording_driver()
    member, generation = classic_member(driver, "classic")
    with monkeypatch.context() as patch:
        plant(patch)
        driver.ask(12, 4, asks.heartbeat("classic", generation, member, "i"))
    [dump] = dumped(driver, driver.host.recorder.take_faults())

    again = replay(dump)

    assert again.failures == []
    answer, outcome = again.differences
    assert "the answer to ticket" in answer  # it was UNKNOWN_SERVER_ERROR
    assert "ZeroDivisionError" in outcome


def test_sessions_that_repeated_heartbeats_prolong_end_when_they_did() -> None:
    """A heartbeat answered from the memo is no event; the session timer shows what it did."""
    driver = recording_driver()
    member, generation = classic_member(driver, "classic")
    memo: LeasedAnswers[str] = LeasedAnswers()
    driver.ask(12, 4, asks.heartbeat("classic", generation, member, "i"))
    memo.remember("key", driver.__dict__["lease"], "the answer")
    for _ in range(10):
        driver.wait(20_000)
        assert memo.recall("key", lambda: driver.now) == "the answer"
        driver.host.tick(driver.now)
        driver.pump()
    driver.wait(46_000)
    driver.wait(46_000)

    dump = recorded(driver)
    assert any(step.sessions for step in dump.steps)
    assert replay(dump).differences == []


def test_the_ring_is_bounded_and_begins_with_a_later_state() -> None:
    driver = recording_driver(**{BYTES_MAX: "200000"})
    ring = driver.host.recorder
    a_busy_minute(driver)
    [first] = ring.recordings("")
    for number in range(2_000):
        driver.ask(68, 1, beat("modern", f"m{number % 4}", 2))
        driver.wait(5)

    [last] = ring.recordings("")

    assert last.state != first.state
    tape = ring.tapes[0]
    assert tape.older is not None
    assert tape.newer is not None
    assert tape.older.size + tape.newer.size < 200_000
    again = replay(recorded(driver))
    assert again.differences == []


def test_a_state_that_is_too_large_is_not_recorded() -> None:
    driver = recording_driver(**{BYTES_MAX: "20000"})
    for number in range(50):
        driver.ask(68, 1, beat("modern", f"m{number}"))
        driver.wait(300)
    assert driver.host.recorder.recordings("") == []
    assert driver.host.recorder.tapes[0].why_not == "its state is too large"


def test_nothing_is_recorded_where_nothing_may_be_kept() -> None:
    driver = recording_driver(**{BYTES_MAX: "0"})
    a_busy_minute(driver)
    ring = driver.host.recorder
    assert ring.recordings("") == []
    assert ring.tapes[0].newer is None


def test_it_is_switched_on_and_off_while_the_host_runs() -> None:
    driver = recording_driver(**{BYTES_MAX: "0"})
    a_busy_minute(driver)
    driver.ask(44, 1, asks.set_broker_config(BYTES_MAX, "4000000"))
    a_busy_minute(driver)
    dump = recorded(driver)
    assert len(dump.steps) > 20
    assert replay(dump).differences == []
    driver.ask(44, 1, asks.set_broker_config(BYTES_MAX, "0"))
    assert driver.host.recorder.recordings("") == []


def test_a_file_has_no_secret() -> None:
    driver = recording_driver()
    a_busy_minute(driver)
    driver.ask(8, 8, asks.commit("simple", 5))
    data = write_dump(driver.host.recorder.recordings(""), Configs(CONFIGS), ABOUT)
    assert SECRET.encode() not in data


class _Harmful:
    def __reduce__(self) -> Any:
        return print, ("done",)


@pytest.mark.parametrize("value", [_Harmful(), random.getrandbits, MemoryLog()])
def test_a_file_can_name_only_what_recordings_have(value: Any) -> None:
    with pytest.raises(NotReadableError):
        unpack(pickle.dumps(value), ())


@pytest.mark.parametrize("data", [b"", b"\x80", b"no recording", b"\x81\xa8rollcall\x07"])
def test_a_file_that_is_no_recording_is_refused(data: bytes) -> None:
    with pytest.raises(NotReadableError):
        read_dump(data)


def test_groups_read_the_end_of_a_session_where_it_is_recorded() -> None:
    """Repeated heartbeats move it and are no events: a replay knows only what was read so."""
    readers = set()
    for path in (ROOT / "protocol" / "groups").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
            if is_read and node.attr == "session_deadline_ms":
                readers.add(path.name)
    assert readers == {"invariants.py"}, "ctx.session_end reads it"


@pytest.mark.parametrize(
    "member", [ErrorCode.stale_member_epoch, MemberState.STABLE, ModernGroupState.STABLE]
)
def test_enumerations_are_packed_alike_by_every_patch_release_of_python(
    member: Enum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python 3.11.2 stores them: by a call of ``getattr``, which no recording may name."""
    monkeypatch.setattr(
        type(member), "__reduce_ex__", lambda self, _: (getattr, (type(self), self.name))
    )
    assert unpack(pack([member], [], 1_000), ()) == [member]
