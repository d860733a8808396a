"""Faults of a cluster that runs: each ends by itself, and all are ended when a drill is left."""

import errno
import signal
from types import SimpleNamespace

import pytest

from bench.interruption import Interrupted
from bench.rehearsals.stages import OWN_FAULTS
from bench.scenarios.faults import CutCoordinator, FreezeCoordinator
from bench.servers import live_cluster
from bench.servers.live_cluster import LiveCluster
from failover.drills.checked import DrillError

PIDS = {0: 100, 1: 101, 2: 102}


class Nodes:
    """Three coordinators that are called and get signals, as far as a drill can tell."""

    def __init__(self):
        self.called, self.signals = [], []
        self.absent, self.deaf, self.ended = set(), set(), set()

    def find(self, name):
        node = int(name.rsplit("-", 1)[1])
        if node in self.absent:
            return None

        def method(word):
            return SimpleNamespace(remote=lambda *arguments: (node, word, arguments))

        return SimpleNamespace(**{word: method(word) for word in ("cut", "mend", "slow_disk")})

    def answer(self, call, _timeout_s):
        node, word, arguments = call
        self.called.append((node, word, *arguments))
        if node in self.deaf:
            raise live_cluster.CallError("it does not answer")

    def signal(self, pid, number):
        if pid in self.ended:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        self.signals.append((pid, number))

    def mended(self):
        return [node for node, word, *_ in self.called if word == "mend"]


@pytest.fixture
def nodes(monkeypatch):
    nodes = Nodes()
    monkeypatch.setattr(live_cluster, "find", nodes.find)
    monkeypatch.setattr(live_cluster, "answer", nodes.answer)
    monkeypatch.setattr(live_cluster, "coordinator_name", lambda node: f"coordinator-{node}")
    monkeypatch.setattr(live_cluster.os, "kill", nodes.signal)
    monkeypatch.setattr(
        live_cluster.processes, "started", lambda pid: None if pid in nodes.ended else 1.0
    )
    rows = [{"node_id": node, "pid": pid} for node, pid in PIDS.items()]
    monkeypatch.setattr(live_cluster.actors, "status", lambda: {"coordinators": rows})
    return nodes


@pytest.fixture
def live(nodes, tmp_path):
    bootstrap = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
    live = LiveCluster(SimpleNamespace(data_dir=str(tmp_path), bootstrap=bootstrap))
    live.status()
    return live


def test_a_drill_that_is_interrupted_while_a_node_is_cut_off_mends_it(nodes, live):
    with pytest.raises(Interrupted), live.left_whole():
        live.cut([1])
        raise Interrupted(signal.SIGINT)
    assert nodes.called == [(1, "cut", [0, 2]), (1, "mend")]


def test_a_drill_that_has_mended_its_cut_mends_nothing_at_the_end(nodes, live):
    with live.left_whole():
        live.cut([0, 1])
        live.mend()
    assert nodes.mended() == [0, 1]


def test_a_cut_that_was_not_answered_is_mended_too(nodes, live):
    nodes.deaf = {0}
    with pytest.raises(DrillError), live.left_whole():
        live.cut([0, 1])
    assert nodes.mended() == [0]


def test_a_node_that_cannot_be_mended_keeps_no_other_from_it_and_is_told(nodes, live, capsys):
    with live.left_whole():
        live.cut([0, 1])
        nodes.deaf = {0}
    assert nodes.mended() == [0, 1]
    assert capsys.readouterr().err == (
        "rollcall: Coordinator 0 could not mend: it does not answer. It is cut off from its peers"
        " until it restarts.\n"
    )


def test_the_cut_of_a_process_that_has_ended_is_over(nodes, live, capsys):
    live.cut([0, 1])
    nodes.absent, nodes.ended = {0}, {PIDS[0]}
    live.mend()
    with live.left_whole():
        pass
    assert nodes.mended() == [1]
    assert capsys.readouterr().err == ""


def test_a_mend_that_failed_is_told_and_is_tried_again(nodes, live):
    live.cut([0])
    nodes.deaf = {0}
    with pytest.raises(DrillError, match="Coordinator 0 could not mend"):
        live.mend()
    nodes.deaf = set()
    live.mend()
    live.mend()
    assert nodes.mended() == [0, 0]


def test_every_disk_is_fast_again_at_the_end_also_when_a_node_does_not_answer(nodes, live):
    nodes.deaf = {1}
    with pytest.raises(DrillError), live.left_whole():
        live.slow_disk([0, 1, 2], 200)
    assert nodes.called[2:] == [(0, "slow_disk", 0), (1, "slow_disk", 0)]


def test_what_was_frozen_is_thawed_also_when_the_next_process_had_ended(nodes, live):
    nodes.ended = {PIDS[1]}
    with pytest.raises(DrillError), live.left_whole():
        live.freeze([0, 1])
    assert nodes.signals == [(PIDS[0], signal.SIGSTOP), (PIDS[0], signal.SIGCONT)]


def begun(live, fault, node):
    _, end = OWN_FAULTS[type(fault)](live, node, fault)
    return end


def test_overlapping_cuts_of_a_rehearsal_end_one_by_one(nodes, live):
    cut = CutCoordinator(at=0, lasts=1_000)
    first, second, again = begun(live, cut, 0), begun(live, cut, 1), begun(live, cut, 0)
    first()
    assert nodes.mended() == [], "another cut of this node goes on"
    second()
    assert nodes.mended() == [1]
    again()
    assert nodes.mended() == [1, 0]


def test_overlapping_freezes_of_a_rehearsal_end_one_by_one(nodes, live):
    freeze = FreezeCoordinator(at=0, lasts=1_000)
    first, second, again = begun(live, freeze, 0), begun(live, freeze, 1), begun(live, freeze, 0)
    del nodes.signals[:]
    first()
    second()
    assert nodes.signals == [(PIDS[1], signal.SIGCONT)]
    again()
    assert nodes.signals[1:] == [(PIDS[0], signal.SIGCONT)]
