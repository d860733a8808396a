"""Scenarios over sockets, on a cluster that runs already: simulated and real runs agree."""

import json

import pytest

from actors.cli import admin
from actors.cli.client import AdminClient, shown
from bench.rehearse import main

APART = """
about = "changes far enough apart that each is a rebalance of its own"
duration = "26s"
topics.t.partitions = 6
topics.u.partitions = 2
configs = { "group.initial.rebalance.delay.ms" = "0" }
[[groups]]
name = "dynamic"
topics = ["t"]
start_time = "1s"
heartbeat_interval_ms = 500
behaviours = [
    { do = "scale", at = "4s", replicas = 4 },
    { do = "scale", at = "9s", replicas = 3 },
    { do = "poll-timeout", at = "14s", away = "4s" },
]
expect = { rebalances_max = 4 }
[[groups]]
name = "static"
topics = ["t"]
static = true
workload = "StatefulSet"
start_time = "1s"
heartbeat_interval_ms = 500
behaviours = [{ do = "rolling-deploy", at = "5s" }]
expect = { rebalances_max = 0 }
[[groups]]
name = "bad"
topics = ["t"]
heartbeat_interval_ms = 500
behaviours = [{ do = "flap", at = "5s", every = "4s", until = "16s", topics = ["t", "u"] }]
expect = { rebalances_max = 2 }
"""
"""The last group is not within what it may cost."""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "apart.toml"
    path.write_text(APART)
    return str(path)


def rehearsed(tmp_path, *arguments: str) -> tuple[int, dict]:
    out = tmp_path / "verdict.json"
    code = main([*arguments, "--json", str(out)])
    return code, json.loads(out.read_text())


def counts(document: dict) -> dict:
    """Return what does not depend on the speed of a machine."""
    kept = ("members", "rebalances", "causes", "failed")
    return {
        name: {**{key: group[key] for key in kept}, "exceeded": bool(group["exceeded"])}
        for name, group in document["groups"].items()
    }


def test_a_simulated_and_a_real_run_agree_about_rebalances_and_verdict(node, scenario, tmp_path):
    at = ("--bootstrap", shown(node.address))
    real_code, real = rehearsed(tmp_path, scenario, *at)
    code, simulated = rehearsed(tmp_path, scenario, "--simulate")
    assert counts(real) == counts(simulated)
    assert counts(real)["dynamic"]["causes"] == {"joined": 2, "left": 2}
    assert counts(real)["static"]["causes"] == {}
    assert counts(real)["bad"]["causes"] == {"subscribed": 4}
    assert (real["clean"], real["violations"]) == (simulated["clean"], simulated["violations"])
    assert (real_code, code) == (1, 1)
    assert real["notes"] == ["The scenario's configs are left out: the cluster keeps its own."]
    with AdminClient([node.address]) as client:
        assert admin.list_groups(client, (), ()) == [], "nothing is left behind"
        names = [topic.name for topic in client.metadata(None).topics]
    assert not [name for name in names if name.startswith("rehearsal-")]
