"""The table and the JSON of a benchmark."""

import json

from bench.report.limits import FigureLimit
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


def test_a_limit_is_of_the_median_of_every_row_that_has_its_figure():
    def row(case, *values):
        return BenchRow(case=case, server="rollcall", rounds=tuple({"x_s": n} for n in values))

    limit = FigureLimit(figure="x_s", least=-3.0)
    kept = limit.checked([*ROWS[:1], row("a", -9.0, -3.0, 5.0)])
    assert kept.line() == "limit: x_s of at least -3: kept"
    beyond = limit.checked([row("a", -1.0), row("b", -4.0), row("c", float("nan"))])
    assert beyond.line() == "limit: x_s of at least -3: NOT KEPT: -4 (b); nan (c)"
    assert [
        each["is_kept"] for each in json.loads(as_json("b", ROWS, [kept, beyond]))["limits"]
    ] == [
        True,
        False,
    ]


def test_a_limit_may_be_the_most():
    row = BenchRow(case="a", server="rollcall", rounds=({"x_bytes": 170.0},))
    beyond = FigureLimit(figure="x_bytes", most=160).checked([row])
    assert beyond.line() == "limit: x_bytes of at most 160: NOT KEPT: 170 (a)"
    assert beyond.document() == {
        "figure": "x_bytes", "most": 160, "is_kept": False, "beyond": {"a": 170.0},
    }  # fmt: skip
    assert FigureLimit(figure="x_bytes", most=170).checked([row]).line().endswith(": kept")


def test_percentiles_are_of_the_ranked_latencies():
    assert latencies([n / 1000 for n in range(100, -1, -1)]) == {
        "p50_ms": 50, "p99_ms": 99, "max_ms": 100,
    }  # fmt: skip
