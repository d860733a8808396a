"""`python -m bench.rehearsals.watched`: a small scenario on a real Kafka, and watched.

`rollcall bench watch` is measured there, too, in small.
"""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.cases import watch
from bench.rehearsals import watched
from bench.rehearsals.watched import VERDICT, main
from bench.report.rounds import BenchSettings
from bench.servers import kafka as kafka_servers
from bench.servers import watched as servers_watched
from bench.servers.kafka import Kafka
from bench.servers.watched import STORIES
from tests.clients.java import java
from tests.clients.servers import START_S

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
