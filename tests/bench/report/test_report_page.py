"""The page of figures is made of the newest results, and nothing in it is written by hand."""

import json
import shlex

import pytest

from bench import all_benchmarks
from bench.all_benchmarks import PARTS
from bench.all_benchmarks import main as run_all
from bench.cli import BENCHES, _parser, _refusal
from bench.report.page import ABOUT, PAGE, newest, page, read

FIGURES = {"seconds_s": 1.25, "requests_per_s": 12345.6, "p99_ms": 0.5, "generator_cpu_s": 3.0}


def results(**parts):
    machine = {"cores": 2, "memory_gib": 4, "system": "Linux on x86_64", "python": "3.11.7"}
    return {"format": 1, "date": "2026-01-02", "machine": machine, "parts": parts}


def part(*servers):
    rows = [{"case": "c", "server": each, "median": FIGURES, "rounds": []} for each in servers]
    return {"commit": "abc", "command": "rollcall bench joins", "seconds": 7, "rows": rows}


def test_the_page_is_made_of_the_newest_results():
    made_of = newest()
    if made_of is None:
        assert not PAGE.exists(), "figures without results"
    else:
        assert PAGE.read_text() == page(read(made_of)), "run python -m bench.report.page"


def test_each_figure_has_its_unit_commit_and_command_and_stands_beside_kafkas():
    told = page(results(joins=part("rollcall", "kafka"))).splitlines()
    assert "`rollcall bench joins`, commit `abc`, 7 s in total." in told
    assert [line for line in told if line.startswith("|")] == [
        "| Case | Figure | Unit | Rollcall | Kafka | Ratio |",
        "|---|---|---|---:|---:|---:|",
        "| c | seconds | s | 1.25 | 1.25 | 1.00 |",
        "| c | requests | 1/s | 12,346 | 12,346 | 1.00 |",
        "| c | p99 | ms | 0.5 | 0.5 | 1.00 |",
    ]


def test_what_has_no_peer_has_no_column_for_it():
    told = page(results(memory=part("rollcall")))
    assert "Kafka | Ratio" not in told
    assert "| c | p99 | ms | 0.5 |" in told


def test_every_part_has_a_heading_and_is_a_benchmark_with_options_that_it_has():
    assert list(PARTS) == list(ABOUT)
    for each in PARTS.values():
        if each.words[0] in BENCHES:
            asked = _parser().parse_args([*each.words, *(["--kafka"] if each.has_peer else [])])
            assert not _refusal(asked), each


class Measuring:
    """Stands for the processes of the parts."""

    def __init__(self, monkeypatch):
        self.ran = []
        self.failing = ""
        self.commit = "one"
        monkeypatch.setattr(all_benchmarks, "_run", self.run)
        monkeypatch.setattr(all_benchmarks, "_commit", lambda: self.commit)
        monkeypatch.setattr(all_benchmarks, "newest", lambda _: None)

    def run(self, words):
        self.ran.append(shlex.join(words))
        return None if words[0] == self.failing else {"seconds": 1, "rows": []}


@pytest.fixture
def measuring(monkeypatch):
    return Measuring(monkeypatch)


def test_parts_come_into_one_file_in_pieces(measuring, tmp_path):
    into = str(tmp_path / "results.json")
    assert run_all(["--only", "joins", "--into", into]) == 0
    measuring.commit = "two"
    assert run_all(["--kafka", "--only", "memory,commits", "--into", into]) == 0
    parts = json.loads((tmp_path / "results.json").read_text())["parts"]
    assert list(parts) == ["commits", "joins", "memory"]
    assert [parts[name]["commit"] for name in parts] == ["two", "one", "two"]
    assert parts["joins"]["command"] == "rollcall bench joins --rounds 3"
    assert parts["commits"]["command"].endswith("--kafka")
    assert not parts["memory"]["command"].endswith("--kafka")


def test_a_run_that_was_interrupted_goes_on_with_what_is_missing(measuring, tmp_path, capsys):
    into = str(tmp_path / "results.json")
    measuring.failing = "joins"
    assert run_all(["--only", "commits,joins,memory", "--into", into]) == 1
    assert "These parts failed: joins." in capsys.readouterr().err
    measuring.failing, measuring.ran = "", []
    assert run_all(["--only", "commits,joins,memory", "--into", into, "--resume"]) == 0
    assert measuring.ran == ["joins --rounds 3"]
    measuring.commit, measuring.ran = "another", []
    assert run_all(["--only", "commits", "--into", into, "--resume"]) == 0
    assert len(measuring.ran) == 1


def test_an_unknown_part_is_refused(capsys):
    assert run_all(["--only", "joins,nonsense"]) == 2
    assert "'nonsense'" in capsys.readouterr().err
