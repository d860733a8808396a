"""`rollcall rehearse --kafka`: a scenario on a cluster of ours in virtual time, and on Kafka."""

import json
import re

import pytest

from bench.rehearse import main
from tests.bench.rehearsals.small_scenarios import FAULTS, counts, slower
from tests.java_support import classpath_or_skip

SMALL = """
about = "members come and go, on a cluster of ours in virtual time and on Kafka"
duration = "25s"
topics.t.partitions = 6
configs = { "group.initial.rebalance.delay.ms" = "0" }
[[groups]]
name = "classic"
topics = ["t"]
start_time = "1s"
heartbeat_interval_ms = 500
behaviours = [
    { do = "scale", at = "10s", replicas = 4 },
    { do = "scale", at = "17s", replicas = 3 },
]
expect = { members_min = 3, members_max = 3, rebalances_min = 2, failed_members_max = 0 }
"""


@pytest.mark.timeout(600)
def test_a_scenario_runs_on_kafka_beside_ours(tmp_path, capsys):
    classpath_or_skip()
    path, out, page = (tmp_path / name for name in ("small.toml", "verdict.json", "report.json"))
    path.write_text(slower(SMALL))
    words = [str(path), "--simulate", "--kafka", "--json", str(out), "--report", str(page)]
    assert main(words) == 0, capsys.readouterr()
    runs = json.loads(out.read_text())["runs"]
    assert [each["run"] for each in runs] == ["simulated", "kafka"]
    ours, theirs = (counts(each)["classic"] for each in runs)
    assert theirs == ours
    assert theirs["causes"] == {"joined": 1, "left": 1}
    assert runs[1]["requests"] > 0
    assert runs[1]["notes"] == []
    assert [each["name"] for each in json.loads(page.read_text())["runs"]] == ["simulated", "kafka"]


@pytest.mark.timeout(900)
def test_kafkas_brokers_suffer_the_faults_that_ours_do(tmp_path, capsys):
    classpath_or_skip()
    path, out = tmp_path / "faults.toml", tmp_path / "verdict.json"
    path.write_text(FAULTS.replace('"25s"', '"45s"'))
    assert main([str(path), "--simulate", "--kafka", "--json", str(out)]) == 0, capsys.readouterr()
    told = capsys.readouterr().out
    _, theirs = told.split("--- Apache Kafka")
    assert re.findall(r"(kill|freeze|cut) node [0-2]", theirs) == ["kill", "freeze"]
    runs = json.loads(out.read_text())["runs"]
    assert [each["run"] for each in runs] == ["simulated", "kafka"]
    assert [each["clean"] for each in runs] == [True, True]
    (note,) = runs[1]["notes"]
    assert note.startswith("cut is left out: ")
