"""`python -m bench.rehearsals.watched`: what is counted, and a small scenario on a real Kafka."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from actors.cli.explain import story_as_json
from bench.rehearsals.watched import STORIES, VERDICT, counted, main
from protocol.stories.causes import Cause
from tests.actors.console.sources import story
from tests.clients.java import java

SMALL = """
about = "Three members of two protocols join, and leave"
duration = "6s"

[topics.orders]
partitions = 4

[[groups]]
name = "classic"
topics = ["orders"]
replicas = 3

[[groups]]
name = "modern"
protocol = "consumer"
topics = ["orders"]
replicas = 3
"""


def test_a_story_that_is_told_again_counts_once() -> None:
    first = story("a", 1)
    told = [
        story_as_json(first),
        story_as_json(replace(first, revision=1)),
        story_as_json(story("a", 2, cause=Cause.JOINED, inferred="it has commits")),
        story_as_json(story("b", 3)),
        {"group_id": "a", "storm": {"rebalances": 9}},
    ]
    assert counted(json.dumps(each) for each in told) == {
        "stories": 3,
        "inferred": 1,
        "groups": {"a": 2, "b": 1},
        "causes": {"left": 2, "joined": 1},
        "storms": {"a": 1},
    }


def test_a_scenario_that_is_none_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["there-is-none"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.timeout(600)
def test_a_small_scenario_is_rehearsed_on_kafka_and_watched(tmp_path: Path) -> None:
    java()
    scenario, out, kept = tmp_path / "small.toml", tmp_path / "out.json", tmp_path / "kept"
    scenario.write_text(SMALL)
    assert main([str(scenario), "--json", str(out), "--keep", str(kept)]) == 0
    found = json.loads(out.read_text())
    (row,) = found["rows"]
    assert row["median"]["records"] > 0
    assert row["median"]["watch_peak_mib"] > 0
    assert {each.rpartition("-")[2] for each in found["told"]["groups"]} >= {"classic", "modern"}
    assert set(found["rehearsed"]["groups"]) == {"classic", "modern"}
    assert (kept / VERDICT).exists()
    assert (kept / STORIES).read_text().count("sentence") >= found["told"]["stories"]
