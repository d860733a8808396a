"""`python -m bench.rehearsals.watched`: what is counted, and a small scenario on a real Kafka.

`rollcall bench watch` is measured there, too, in small.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from actors.cli.explain import story_as_json
from actors.watching.place import PlaceFile, WatchPlace
from bench.cases import watch
from bench.rehearsals import watched
from bench.rehearsals.watched import VERDICT, main
from bench.report.rounds import BenchSettings
from bench.servers import kafka as kafka_servers
from bench.servers import reading
from bench.servers import watched as servers_watched
from bench.servers.kafka import Kafka
from bench.servers.reading import ReadProgress
from bench.servers.server import StartError
from bench.servers.watched import STORIES, counted, stop_watching
from protocol.stories.causes import Cause
from tests.actors.console.sources import story
from tests.clients.java import java
from tests.clients.servers import START_S
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
        stop_watching(Deaf())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """One Kafka for the tests of this module."""
    java()
    configs = {**watch.CONFIGS, "offsets.topic.num.partitions": "3"}
    with pytest.MonkeyPatch.context() as patience:
        patience.setattr(kafka_servers, "START_SECONDS", START_S)
        patience.setattr(servers_watched, "START_S", START_S)
        with kafka_servers.kafka_cluster(1, configs) as started:
            yield started


@pytest.mark.timeout(600)
def test_a_small_scenario_is_rehearsed_on_kafka_and_watched(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "kafka_cluster", lambda *_: nullcontext(kafka))
    monkeypatch.setattr(watched, "PARTITIONS", 3)
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


@pytest.mark.timeout(600)
def test_the_benchmark_in_small(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "kafka_cluster", lambda *_: nullcontext(kafka))
    monkeypatch.setattr(watch, "PARTITIONS", 3)
    monkeypatch.setattr(watch, "MEMBERS_EACH", 5)
    setting = BenchSettings(rounds=1, seconds=1, members=10, records=10_000)
    committed, classic, consumer, again = watch.bench_watch(setting, False)
    assert committed.case == "10200 offsets are committed"
    assert classic.case == "10 members join classic groups"
    first, joined, modern, whole = (row.median() for row in (committed, classic, consumer, again))
    assert first["records"] == 10_200
    assert first[watch.PER_OFFSET] != 0
    assert first["stories"] == 0
    assert joined["stories"] >= 2
    assert modern["stories"] >= 2
    assert whole["records"] >= first["records"] + joined["records"] + modern["records"]
    for figures in (first, joined, modern):
        assert figures["seconds_s"] > figures["behind_s"] >= 0
        assert figures["watch_peak_mib"] > 0
    assert whole["records_per_s"] > 0
