"""Scenarios over sockets: simulated and real runs agree, and clusters suffer the faults."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import psutil
import pytest
from msgspec.structs import replace

from actors.cli import admin
from actors.cli.client import AdminClient, shown
from bench.rehearsals import crowd
from bench.rehearsals.guest import GuestStage
from bench.rehearsals.stages import KAFKA_FAULTS, OWN_FAULTS, KafkaStage, notes_on
from bench.rehearse import main
from bench.scenarios import simulated
from bench.scenarios.faults import Fault
from bench.scenarios.files import found
from bench.scenarios.plan import MemberAction
from tests.bench.rehearsals.small_scenarios import FAULTS, counts, slower
from tests.small_disk import MIB, fill, mounted
from tests.waiting import WITHIN_S, patient, until

MODERN = """
[[groups]]
name = "{}"
protocol = "{}"
topics = ["t"]
start_time = "1s"
behaviours = [
    {{ do = "scale", at = "8s", replicas = 4 }},
    {{ do = "scale", at = "21s", replicas = 3 }},
]
expect = {{ rebalances_max = 2 }}
"""
APART = """
about = "changes far enough apart that each is a rebalance of its own"
duration = "32s"
topics.t.partitions = 6
topics.u.partitions = 2
configs = { "group.initial.rebalance.delay.ms" = "0" }
[[groups]]
name = "dynamic"
topics = ["t"]
start_time = "1s"
heartbeat_interval_ms = 500
behaviours = [
    { do = "scale", at = "8s", replicas = 4 },
    { do = "scale", at = "13s", replicas = 3 },
    { do = "poll-timeout", at = "18s", away = "4s" },
]
expect = { rebalances_max = 4 }
[[groups]]
name = "static"
topics = ["t"]
static = true
workload = "StatefulSet"
start_time = "1s"
heartbeat_interval_ms = 500
behaviours = [{ do = "rolling-deploy", at = "9s" }]
expect = { rebalances_max = 0 }
[[groups]]
name = "bad"
topics = ["t"]
heartbeat_interval_ms = 500
behaviours = [{ do = "flap", at = "9s", every = "4s", until = "20s", topics = ["t", "u"] }]
expect = { rebalances_max = 2 }
"""
"""Its last group is not within what it may cost."""

APART += "".join(
    MODERN.format(*each)
    for each in (("modern", "consumer"), ("shared", "share"), ("streams", "streams"))
)

HARD = """
about = "members that fall silent, and one with a double"
duration = "21s"
topics.t.partitions = 6
[configs]
"group.initial.rebalance.delay.ms" = "0"
"group.min.session.timeout.ms" = "1000"
[[groups]]
name = "silent"
topics = ["t"]
session_timeout_ms = 2000
heartbeat_interval_ms = 500
behaviours = [
    { do = "crash", at = "5s", away = "4s" },
    { do = "pause", at = "12s", for = "4s" },
]
[[groups]]
name = "double"
topics = ["t"]
static = true
session_timeout_ms = 2000
heartbeat_interval_ms = 500
behaviours = [{ do = "duplicate", at = "5s", for = "4s" }]
"""


VARIANTS = """
about = "nothing happens"
duration = "3s"
topics.t.partitions = 3
configs = { "group.initial.rebalance.delay.ms" = "0" }
[[groups]]
name = "a"
topics = ["t"]
[[variants]]
name = "two"
groups.a.replicas = 2
"""


@pytest.fixture
def rehearsed(node, tmp_path):
    """Run a scenario over sockets and simulated; return exit code and verdict of each."""

    def run(text: str) -> list[tuple[int, dict]]:
        path, out = tmp_path / "scenario.toml", tmp_path / "verdict.json"
        path.write_text(slower(text))
        found = []
        for where in (("--bootstrap", shown(node.address)), ("--simulate",)):
            code = main([str(path), *where, "--json", str(out)])
            found.append((code, json.loads(out.read_text())))
        return found

    return run


def test_a_simulated_and_a_real_run_agree_about_rebalances_and_verdict(node, rehearsed):
    (real_code, real), (code, virtual) = rehearsed(APART)
    assert counts(real) == counts(virtual)
    assert real["requests"] > real["late_requests"] >= 0 == virtual["requests"]
    assert {name: each["causes"] for name, each in counts(real).items()} == {
        "dynamic": {"joined": 2, "left": 2},
        "static": {},
        "modern": {"joined": 1, "left": 1},
        "shared": {"joined": 1, "left": 1},
        "streams": {"joined": 1, "left": 1},
        "bad": {"subscribed": 4},
    }
    assert (real["clean"], real["violations"]) == (virtual["clean"], virtual["violations"])
    assert (real_code, code) == (1, 1)
    assert real["notes"] == ["The scenario's configs are left out: the cluster keeps its own."]
    with AdminClient([node.address]) as client:
        assert admin.list_groups(client, (), ()) == [], "nothing is left behind"
        names = [topic.name for topic in client.metadata(None).topics]
    assert not [name for name in names if name.startswith("rehearsal-")]


def test_they_agree_about_members_that_fall_silent(rehearsed):
    (real_code, real), (code, virtual) = rehearsed(HARD)
    assert counts(real) == counts(virtual)
    assert counts(real)["silent"]["causes"] == {"joined": 2, "expired": 2}
    assert counts(real)["double"]["failed"] == 1, "the older one of two is fenced"
    assert (real_code, code) == (0, 0)


def test_every_place_carries_out_or_leaves_out_every_action_and_fault():
    assert set(crowd.MEMBER_ACTIONS) == set(simulated.MEMBER_ACTIONS) == set(get_args(MemberAction))
    faults = set(get_args(Fault))
    assert set(simulated.FAULTS) == set(OWN_FAULTS) == faults
    assert {*KAFKA_FAULTS, *KafkaStage.cannot} == set(GuestStage.cannot) == faults


def test_a_cluster_that_ran_before_leaves_out_racks_and_configs_and_says_so():
    guest = GuestStage((("127.0.0.1", 9092),), {}, "rehearsal-")
    assert notes_on(guest, found("uneven-racks")) == [
        "The cluster has 1 node, and not 3 as the scenario wants.",
        "The scenario's configs are left out: the cluster keeps its own.",
        "The racks of its nodes are left out: the cluster keeps its own.",
    ]
    assert notes_on(guest, found("zombie")) == []


def test_kafka_says_that_it_has_fewer_brokers_than_the_scenario_has_nodes():
    kafka = KafkaStage(SimpleNamespace(bootstrap=(("127.0.0.1", 1),) * 3))
    (note,) = notes_on(kafka, replace(found("fifty-thousand"), nodes=7))
    assert note == "The cluster has 3 nodes, and not 7 as the scenario wants."
    assert notes_on(kafka, found("leader-loss-in-deploy")) == []


def test_a_cluster_is_started_for_a_scenario_and_suffers_its_faults(tmp_path):
    path, out = tmp_path / "faults.toml", tmp_path / "verdict.json"
    path.write_text(FAULTS)
    rehearse = [sys.executable, "-m", "rollcall", "rehearse", str(path), "--json", str(out)]
    done = subprocess.run(rehearse, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"(kill|freeze|cut) node [0-2]", done.stdout) == ["kill", "freeze", "cut"]
    assert re.search(r"\d members, .* heartbeats/s, \d+ errors, [1-3] faults, ", done.stdout)
    document = json.loads(out.read_text())
    assert (document["run"], document["clean"], document["notes"]) == ("real", True, [])
    assert document["groups"]["a"]["members"] == 3


def test_an_interrupted_rehearsal_leaves_nothing_behind(node, tmp_path):
    path = tmp_path / "long.toml"
    path.write_text(FAULTS.replace('"25s"', '"1h"').replace("3s", "30m"))
    rehearse = [sys.executable, "-m", "rollcall", "rehearse", str(path), "--bootstrap"]
    with (
        AdminClient([node.address]) as client,
        subprocess.Popen([*rehearse, shown(node.address)], stderr=subprocess.PIPE) as running,
    ):
        until(lambda: admin.list_groups(client, ("Stable",), ()), WITHIN_S, "the members join")
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=WITHIN_S)
        assert admin.list_groups(client, (), ()) == []
    assert said == b"rollcall: The rehearsal was stopped by SIGINT.\n"
    assert running.returncode == 2, "there is no verdict"


VANISHED = """
about = "members that end without a word"
duration = "1h"
topics.t.partitions = 4
"""
GROUP_THAT_VANISHES = """
[[groups]]
name = "{protocol}-{static}"
topics = ["t"]
protocol = "{protocol}"
static = {static}
replicas = 2
[[groups.behaviours]]
do = "crash"
at = "4s"
pods = 1
away = "1m"
"""


def test_an_interrupted_rehearsal_removes_members_that_vanished(node, tmp_path):
    """Their sessions last for longer than an interrupted command may."""
    path = tmp_path / "vanished.toml"
    groups = [
        GROUP_THAT_VANISHES.format(protocol=protocol, static=static)
        for protocol in ("classic", "consumer")
        for static in ("true", "false")
    ]
    path.write_text(VANISHED + "".join(groups))
    rehearse = [sys.executable, "-m", "rollcall", "rehearse", str(path), "--bootstrap"]
    with subprocess.Popen(
        [*rehearse, shown(node.address)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        for _ in groups:
            assert any("crash" in line for line in running.stdout)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=WITHIN_S)
    assert said == "rollcall: The rehearsal was stopped by SIGINT.\n"
    with AdminClient([node.address]) as client:
        assert admin.list_groups(client, (), ()) == []


def processes_with(mark: str) -> set[int]:
    """Return the processes that know a test's name, whoever started them."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("REHEARSAL") == mark:
                found.add(process.pid)
    return found


def ended_by(stops: Callable[[subprocess.Popen[bytes]], object], tmp_path: Path, **env: str) -> str:
    """Rehearse for an hour on a cluster of its own, until ``stops``; return its last sentence."""
    path, mark = tmp_path / "long.toml", str(tmp_path)
    path.write_text(FAULTS.replace('"25s"', '"1h"').replace("3s", "30m"))
    with subprocess.Popen(
        [sys.executable, "-m", "rollcall", "rehearse", str(path)],
        env={**os.environ, **env, "REHEARSAL": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert any(b" heartbeats/s" in line for line in running.stdout)
        assert len(processes_with(mark)) > 3, "its coordinators are found"
        stops(running)
        _, said = running.communicate(timeout=patient(120))
    assert running.returncode == 2, said
    until(lambda: not processes_with(mark), patient(60), "all its processes have ended")
    return said.decode().splitlines()[-1]


def test_an_interrupted_rehearsal_stops_its_own_cluster(tmp_path):
    said = ended_by(lambda running: running.send_signal(signal.SIGINT), tmp_path)
    assert said == "rollcall: The rehearsal was stopped by SIGINT."


def test_a_disk_that_fills_during_a_rehearsal_ends_it(tmp_path):
    with mounted(tmp_path / "disk", size_mib=512) as disk:
        said = ended_by(lambda _running: fill(disk, left=8 * MIB), tmp_path, TMPDIR=str(disk))
        left = [each.name for each in disk.iterdir() if "rollcall-bench-" in each.name]
    told = re.sub(r"rollcall-bench-\w+", "D", said)
    assert told == (
        f"rollcall: The rehearsal could not be completed: The disk of {disk}/D/data has less than"
        " 16 MiB of room, so that the cluster cannot write: make room there, or let TMPDIR name"
        " another directory."
    )
    assert left == []


def test_every_variant_has_a_cluster_of_its_own(tmp_path):
    path, out = tmp_path / "variants.toml", tmp_path / "verdict.json"
    path.write_text(VARIANTS)
    rehearse = [sys.executable, "-m", "rollcall", "rehearse", str(path), "--json", str(out)]
    done = subprocess.run(rehearse, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = json.loads(out.read_text())["runs"]
    assert [(each["run"], each["variant"]) for each in runs] == [("real", "base"), ("real", "two")]
    assert [each["groups"]["a"]["members"] for each in runs] == [3, 2]
