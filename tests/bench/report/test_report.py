"""The table and the JSON of a benchmark."""

import json

from bench.report.rounds import BenchRow, latencies
from bench.report.tables import as_json, table

ROWS = [
    BenchRow(
        case="c", server="rollcall",
        rounds=({"per_s": 10.0}, {"per_s": 30.0}, {"per_s": 20.0}),
    ),
    BenchRow(case="c", server="kafka", rounds=({"per_s": 5.0},)),
]  # fmt: skip


def test_the_table_shows_medians_and_our_ratio_to_kafka():
    header, line = table(ROWS).splitlines()
    assert header.split() == ["case", "figure", "rollcall", "kafka", "rollcall/kafka"]
    assert line.split() == ["c", "per_s", "20.000", "5.000", "4.00"]


def test_the_table_of_one_server_has_no_ratio():
    header, line = table(ROWS[:1]).splitlines()
    assert header.split() == ["case", "figure", "rollcall"]
    assert line.split() == ["c", "per_s", "20.000"]


def test_the_json_keeps_every_round():
    ours, theirs = json.loads(as_json("b", ROWS))["rows"]
    assert [figures["per_s"] for figures in ours["rounds"]] == [10, 30, 20]
    assert theirs["median"] == {"per_s": 5}


def test_percentiles_are_of_the_ranked_latencies():
    assert latencies([n / 1000 for n in range(100, -1, -1)]) == {
        "p50_ms": 50, "p99_ms": 99, "max_ms": 100,
    }  # fmt: skip
