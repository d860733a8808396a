"""Faults of real runs: late ones, and those that nobody can suffer; on a clock of the test."""

import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import Future
from types import MappingProxyType, SimpleNamespace

import pytest

from actors.errors import FailureError
from bench.rehearsals import real, side_work
from bench.rehearsals.stages import KAFKA_FAULTS, KafkaStage, OwnStage, faults_on, notes_on
from bench.scenarios.done_faults import DoneFault
from bench.scenarios.faults import FreezeCoordinator, KillCoordinator, RestartCoordinator
from bench.scenarios.files import parse
from bench.scenarios.plan import expand
from bench.scenarios.values import Duration
from bench.servers import held_log
from bench.servers.held_log import HeldLog
from failover.drills.checked import DrillError
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from tests.waiting import WITHIN_S, until

OWNER = LogIdentity(cluster_id="c", node_id=1, partitions=1, others=())

SCENARIO = """
about = "a freeze"
duration = "{}"
topics.t.partitions = 3
faults = [{}]
[[groups]]
name = "a"
topics = ["t"]
"""
NODES = (("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 3))
FREEZE = '{ do = "freeze", at = "20s", for = "5s" }'
WAITS = (20_000, "freeze: nobody can suffer it now, so it is tried again")


class Clock:
    """Time of the test: it goes on when the run sleeps, or while a fault is begun or ended."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += max(seconds, 0.001)


class Threads:
    """Does work at once, and says that it is done so many seconds of the clock later."""

    def __init__(self, clock, takes_s):
        self._clock, self._takes_s = clock, takes_s

    def submit(self, work):
        future, until_s = Future(), self._clock.now_s + self._takes_s()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        future.done = lambda: self._clock.now_s >= until_s
        return future

    def shutdown(self, **_options):
        """Have nothing to wait for."""


class Stage(SimpleNamespace):
    """A cluster of which nothing is asked; it says when a fault began and ended."""

    def inflict(self, fault, node):
        self.hit(node)
        self.suffered.append((self.clock(), node))
        if not isinstance(fault, FreezeCoordinator):
            return None
        return fault.lasts, self.end

    def end(self):
        self.ends()
        self.suffered.append((self.clock(), "whole"))

    def check(self):
        """Find nothing wrong."""


CROWD = SimpleNamespace(
    check=lambda: None, lost=list, shares=dict, counts=Counter, missing=lambda: 0
)  # fmt: skip


def nothing(*_):
    """Let it happen."""


@pytest.fixture
def followed(monkeypatch):
    """Follow the scenario of this duration, in which somebody leads from a time on."""
    clock = Clock()
    monkeypatch.setattr(real, "time", clock)

    def run(
        duration, leads_from_s=0, *, faults=FREEZE, hit=nothing, ends=nothing, takes_s=lambda: 0
    ):
        monkeypatch.setattr(
            side_work, "ThreadPoolExecutor", lambda *_, **__: Threads(clock, takes_s)
        )
        scenario, told = parse("s", SCENARIO.format(duration, faults)), []
        stage = Stage(
            bootstrap=NODES, versions={}, command_config=None,
            cannot=MappingProxyType({}), suffered=[], clock=lambda: round(clock.now_s, 1),
            hit=lambda node: hit(clock.now_s, node), ends=lambda: ends(clock.now_s),
        )  # fmt: skip
        monkeypatch.setattr(
            real._Play,
            "_coordinator",
            lambda _self, _fault: 2 if clock.now_s >= leads_from_s else None,
        )
        play = real._Play(
            scenario, expand(scenario), stage, lambda at, text: told.append((at, text))
        )
        play._follow(CROWD)
        return SimpleNamespace(
            suffered=stage.suffered,
            told=[each for each in told if "heartbeats/s" not in each[1]],
            progress=[at for at, text in told if "heartbeats/s" in text],
            missed=play._faults.missed,
            late=play._faults.late,
            done=play._faults.log.all(),
        )

    run.clock = clock
    return run


def test_a_fault_waits_for_a_leader_and_lasts_as_long_as_it_says(followed):
    ran = followed("60s", 26)
    assert ran.suffered == [(26, 2), (31, "whole")]
    assert ran.told[0] == WAITS
    assert [text for _, text in ran.told[1:]] == ["freeze node 2"]
    assert (ran.missed, ran.late) == ([], 0)


@pytest.mark.parametrize(("duration", "for_s"), [("2m", 30), ("25s", 5)])
def test_a_fault_without_a_leader_is_given_up_and_told(followed, duration, for_s):
    ran = followed(duration, 1_000)
    assert ran.suffered == []
    (sentence,) = ran.missed
    said, _, waited = sentence.removesuffix(" s").rpartition(" for ")
    assert said == "freeze at 20 s did not happen: nobody led the partition of group a"
    assert float(waited) == pytest.approx(for_s, abs=0.6)
    assert [text for _, text in ran.told] == [WAITS[1], sentence]


def gone_until(until_s, error):
    def hit(now_s, _node):
        if now_s < until_s:
            raise error

    return hit


@pytest.mark.parametrize(
    "error",
    [
        DrillError("Process 4711 is not there any more."),
        DrillError("Coordinator 1 is not there."),
        FailureError("Coordinator 1 does not answer."),
    ],
)
def test_a_fault_of_a_node_that_is_down_is_tried_again_until_it_is_back(followed, error):
    faults = '{ do = "freeze", at = "20s", for = "5s", node = 1 }'
    ran = followed("60s", faults=faults, hit=gone_until(23, error))
    assert ran.suffered == [(23, 1), (28, "whole")]
    assert [text for _, text in ran.told] == [WAITS[1], "freeze node 1"]
    assert ran.told[0] == WAITS
    assert ran.missed == []


def test_a_fault_that_its_node_never_suffers_is_told_with_the_last_reason(followed):
    error = DrillError("Coordinator 1 is not there.")
    faults = '{ do = "kill", at = "20s", node = 1 }'
    ran = followed("2m", faults=faults, hit=gone_until(1_000, error))
    assert ran.suffered == []
    (sentence,) = ran.missed
    assert sentence == (
        "kill at 20 s did not happen: it was tried for 30 s, at last: Coordinator 1 is not there"
    )


def test_faults_that_happened_are_kept_with_their_ends_and_offsets_are_read_at_once(
    followed, monkeypatch
):
    begun = []
    monkeypatch.setattr(real.OffsetReader, "hurry", lambda _: begun.append(followed.clock.now_s))

    def hit(now_s, _node):
        if now_s > 7.5:
            raise DrillError("Coordinator 1 is not there.")

    ran = followed(
        "60s",
        faults='{ do = "kill", at = "5s", node = 1 }, { do = "restart", at = "6s", node = 2 },'
        ' { do = "freeze", at = "7s", for = "5s", node = 0 }, { do = "kill", at = "8s", node = 1 }',
        hit=hit,
    )
    assert ran.done == (
        DoneFault(5_000, "kill", 1), DoneFault(6_000, "restart", 2),
        DoneFault(7_000, "freeze", 0, 12_000),
    )  # fmt: skip
    assert begun == pytest.approx([5, 6, 7])
    assert len(ran.missed) == 1


def test_what_is_wrong_with_this_program_ends_the_run(followed):
    with pytest.raises(KeyError):
        followed("60s", hit=gone_until(1_000, KeyError("a fault of ours")))


def test_an_end_that_does_not_succeed_is_tried_again(followed):
    def ends(now_s):
        if now_s < 27:
            raise DrillError("Coordinator 2 could not mend: it does not answer.")

    ran = followed("60s", ends=ends)
    assert ran.suffered == [(20, 2), (27, "whole")]
    assert ran.told[1:] == [
        (
            25_000,
            "freeze node 2 cannot end now, so it is tried again: Coordinator 2 could not mend:"
            " it does not answer",
        )
    ]
    assert ran.missed == []


def test_an_end_that_never_succeeds_is_told(followed):
    def ends(_now_s):
        raise DrillError("Coordinator 2 could not mend: it does not answer.")

    ran = followed("2m", ends=ends)
    assert ran.missed == [
        "freeze node 2 did not end at 25 s: Coordinator 2 could not mend: it does not answer"
    ]


def test_a_fault_that_takes_long_delays_no_other_and_no_progress(followed):
    """A restart is drained first, which takes 15 s here; its mark has the time of its begin."""
    faults = '{ do = "restart", at = "12s", node = 0 }, ' + FREEZE
    takes_s = iter([15, 0, 0])
    ran = followed("60s", faults=faults, takes_s=lambda: next(takes_s))
    assert ran.suffered == [(12, 0), (20, 2), (25, "whole")]
    assert ran.told == [(20_000, "freeze node 2"), (12_000, "restart node 0")]
    assert ran.progress == [10_000, 20_000, 30_000, 40_000, 50_000]
    assert (ran.missed, ran.late) == ([], 0)


def test_a_fault_that_this_machine_is_late_for_has_its_real_time_and_is_counted(followed):
    def hit(_now_s, node):
        if node == 0:  # the whole machine stands still
            followed.clock.now_s += 3

    faults = '{ do = "kill", at = "19s", node = 0 }, ' + FREEZE
    ran = followed("60s", faults=faults, hit=hit)
    assert ran.told == [(19_000, "kill node 0"), (22_000, "freeze node 2")]
    assert ran.suffered == [(22, 0), (22, 2), (27, "whole")]
    assert ran.late == 1


def test_a_fault_lasts_as_long_as_it_says_also_when_the_scenario_ends_before(followed):
    ran = followed("22s")
    assert ran.suffered == [(20, 2), (22, "whole")]
    assert (ran.missed, ran.late) == ([], 0)


def test_the_error_of_what_a_thread_did_is_raised_where_it_is_handed_over():
    def fail():
        raise KeyError("a fault of ours")

    with side_work.SideWork() as work:
        work.begin(fail, nothing)
        with pytest.raises(KeyError):
            until(lambda: work.hand_over() or work.is_done, WITHIN_S, "it was handed over")


def test_what_was_begun_is_done_when_the_run_ends_and_what_waited_is_not(monkeypatch):
    monkeypatch.setattr(side_work, "THREADS_MAX", 1)
    began, may_end, done = threading.Event(), threading.Event(), []

    def first():
        began.set()
        may_end.wait(WITHIN_S)
        done.append("first")

    with pytest.raises(KeyboardInterrupt), side_work.SideWork() as work:
        work.begin(first, nothing)
        work.begin(lambda: done.append("second"), nothing)
        assert began.wait(WITHIN_S)
        threading.Timer(0.05, may_end.set).start()
        raise KeyboardInterrupt
    assert done == ["first"]


def test_a_broker_that_is_down_suffers_nothing():
    kafka = SimpleNamespace(runs=lambda _node: False)
    for fault in (KillCoordinator(at=0), FreezeCoordinator(at=0, lasts=1)):
        with pytest.raises(DrillError, match="Broker 1 is not there"):
            KAFKA_FAULTS[type(fault)](kafka, 1, fault)


def test_kafka_leaves_out_a_fault_of_a_node_that_it_does_not_have_and_says_so():
    faults = '{ do = "kill", at = "20s", node = 7 }, { do = "kill", at = "30s", node = 2 }'
    scenario = parse("s", "nodes = 12\n" + SCENARIO.format("60s", faults))
    kafka = KafkaStage(SimpleNamespace(bootstrap=NODES))
    assert notes_on(kafka, scenario) == [
        "kill of node 7 is left out: there are 3 nodes here.",
        "The cluster has 3 nodes, and not 12 as the scenario wants.",
    ]
    assert [fault.node for fault in faults_on(kafka, scenario)] == [2]


class OurNodes(SimpleNamespace):
    """A cluster of ours that says what was done to its nodes."""

    def __getattr__(self, name):
        return lambda *arguments: self.done.append((name, *arguments))


@pytest.mark.parametrize(
    ("fault", "done"),
    [
        (KillCoordinator(at=Duration(0), lasts=Duration(7_000)), ("kill", [1])),
        (RestartCoordinator(at=Duration(0), lasts=Duration(7_000)), ("restart", 1)),
    ],
)
def test_a_node_of_ours_cannot_open_its_log_while_it_is_kept_away(tmp_path, fault, done):
    (tmp_path / "node-1").mkdir()
    lock = tmp_path / "node-1" / "LOCK"
    lock.touch()
    live = OurNodes(bootstrap=(("127.0.0.1", 1),) * 3, data_dir=tmp_path, done=[])
    stage = OwnStage(live)
    after_ms, end = stage.inflict(fault, 1)
    assert live.done[-1] == done
    assert after_ms == 7_000
    assert not can_lock(lock)
    with pytest.raises(DrillError, match="Node 1 is kept away"):
        stage.inflict(FreezeCoordinator(at=Duration(0), lasts=Duration(1)), 1)
    end()
    assert can_lock(lock)
    assert stage.inflict(KillCoordinator(at=Duration(0)), 1) is None


@pytest.mark.parametrize("kind", [KillCoordinator, RestartCoordinator])
def test_a_broker_of_kafka_starts_again_when_it_was_away_for_long_enough(kind):
    kafka = OurNodes(bootstrap=(("127.0.0.1", 1),) * 3, done=[], runs=lambda _node: True)
    stage = KafkaStage(kafka)
    after_ms, end = stage.inflict(kind(at=Duration(0), lasts=Duration(9_000)), 2)
    assert after_ms == 9_000
    assert kafka.done == [("kill" if kind is KillCoordinator else "shut_down", 2)]
    end()
    assert kafka.done[-1] == ("start_again", 2)


def can_lock(path):
    """Return whether another process gets the lock of a file, as a node that starts needs it."""
    taken = f"fcntl.lockf(open({str(path)!r}, 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    words = [sys.executable, "-c", f"import fcntl; {taken}"]
    return not subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode


def test_rocksdb_does_not_open_a_log_that_is_held(tmp_path):
    """What a coordinator that was started again is told; it tries again after some seconds."""
    RocksLog.open(tmp_path, OWNER).close()
    held = HeldLog(tmp_path)
    held.hold()
    assert "another process has this log open" in opened_elsewhere(tmp_path)
    held.release()
    assert opened_elsewhere(tmp_path) == ""


def opened_elsewhere(directory):
    """Return what another process says that opens the log; "" if it can."""
    program = f"""
from pathlib import Path
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
RocksLog.open(Path({str(directory)!r}), {OWNER!r}).close()
"""
    words = [sys.executable, "-c", program]
    return subprocess.run(words, capture_output=True, text=True, check=False).stderr


def test_a_log_that_stays_open_is_told(tmp_path, monkeypatch):
    (tmp_path / "LOCK").touch()
    monkeypatch.setattr(held_log, "WITHIN_S", 0.05)
    program = "import fcntl, sys; file = open(sys.argv[1], 'r+b')\n"
    program += "fcntl.lockf(file, fcntl.LOCK_EX); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "LOCK")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as other:  # fmt: skip
        other.stdout.readline()
        with pytest.raises(DrillError, match="is still open: its node did not end"):
            HeldLog(tmp_path).hold()
        other.communicate(b"\n")
