"""`python -m bench.rehearsals.watched`: what is counted, and a small scenario on a real Kafka."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from actors.cli.explain import story_as_json
from actors.watching.place import PlaceFile, WatchPlace
from bench.rehearsals import reading, watched
from bench.rehearsals.reading import ReadProgress
from bench.rehearsals.watched import STORIES, VERDICT, counted, main
from bench.servers.server import StartError
from protocol.stories.causes import Cause
from tests.actors.console.sources import story
from tests.clients.java import java
from tests.waiting import WITHIN_S

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


def test_what_is_read_last_ends_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = iter(range(1_000, 9_000, 1_000))
    monkeypatch.setattr(reading, "wall_ms", lambda: next(now_ms))
    monkeypatch.setattr(reading, "SAMPLE_S", WITHIN_S)
    file = PlaceFile(tmp_path / "place")
    progress = ReadProgress(file, os.getpid())
    assert progress.read_ms == 1_000
    file.save(WatchPlace(offsets={0: 7}))
    progress.stop()
    assert progress.read_ms == 2_000
    file.save(WatchPlace(offsets={0: 8}))
    progress.stop()
    assert progress.read_ms == 2_000, "the place that is saved at the end changes nothing"


def test_a_watching_that_does_not_end_is_told_in_a_sentence() -> None:
    class Deaf:
        def terminate(self) -> None: ...

        def wait(self, seconds: float) -> int:
            raise subprocess.TimeoutExpired("rollcall watch", seconds)

    with pytest.raises(StartError, match="has not ended 60 s after SIGTERM"):
        watched._stop(Deaf())  # type: ignore[arg-type]


@pytest.mark.timeout(600)
def test_a_small_scenario_is_rehearsed_on_kafka_and_watched(tmp_path: Path) -> None:
    java()
    scenario, out, kept = tmp_path / "small.toml", tmp_path / "out.json", tmp_path / "kept"
    scenario.write_text(SMALL)
    assert main([str(scenario), "--json", str(out), "--keep", str(kept)]) == 0
    found = json.loads(out.read_text())
    (row,) = found["rows"]
    assert row["median"]["records"] > 0
    assert row["median"]["seconds_s"] > row["median"]["behind_s"] >= 0
    assert row["median"]["watch_peak_mib"] > 0
    assert {each.rpartition("-")[2] for each in found["told"]["groups"]} >= {"classic", "modern"}
    assert set(found["rehearsed"]["groups"]) == {"classic", "modern"}
    assert (kept / VERDICT).exists()
    assert (kept / STORIES).read_text().count("sentence") >= found["told"]["stories"]
