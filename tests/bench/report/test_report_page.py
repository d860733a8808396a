"""The page of figures is made of the newest results, and nothing in it is written by hand."""

import json
import shlex
import subprocess

import pytest

from bench import all_benchmarks
from bench.all_benchmarks import PARTS
from bench.all_benchmarks import main as run_all
from bench.checkout_state import git
from bench.cli import BENCHES, _parser, _refusal
from bench.report.page import ABOUT, PAGE, newest, page, read

IDENTITY = ("-c", "user.name=n", "-c", "user.email=e")
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
        assert PAGE.read_text() == page(made_of), "run python -m bench.report.page"


def test_each_figure_has_its_unit_commit_and_command_and_stands_beside_kafkas():
    told = page(results(joins=part("rollcall", "kafka"))).splitlines()
    assert "`rollcall bench joins`, on 2026-01-02, commit `abc`, 7 s in total." in told
    assert [line for line in told if line.startswith("|")] == [
        "| Case | Figure | Unit | Rollcall | Kafka | Ratio |",
        "|---|---|---|---:|---:|---:|",
        "| c | seconds | s | 1.25 | 1.25 | 1.00 |",
        "| c | requests | 1/s | 12,346 | 12,346 | 1.00 |",
        "| c | p99 | ms | 0.5 | 0.5 | 1.00 |",
    ]


def test_each_part_is_the_newest_that_this_machine_has(tmp_path):
    def write(date, cores, **parts):
        found = results(
            **{name: {**part("rollcall"), "commit": commit} for name, commit in parts.items()}
        )
        found |= {"date": date, "machine": {**found["machine"], "cores": cores}}
        (tmp_path / f"{date}.json").write_text(json.dumps(found))

    assert newest(tmp_path) is None
    write("2026-01-01", 8, memory="other", reload="other")
    write("2026-01-02", 2, joins="old", memory="old", gone="old")
    write("2026-01-03", 2, joins="new")
    found = newest(tmp_path)["parts"]
    assert {name: (each["date"], each["commit"]) for name, each in found.items()} == {
        "joins": ("2026-01-03", "new"),
        "memory": ("2026-01-02", "old"),
    }


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
        self.broken = ""
        self.commit = "one"
        self.caveats = []
        monkeypatch.setattr(all_benchmarks, "_run", self.run)
        monkeypatch.setattr(all_benchmarks, "_commit", lambda: (self.commit, list(self.caveats)))
        monkeypatch.setattr(all_benchmarks, "newest", lambda _: None)

    def run(self, words, seconds_max):
        assert seconds_max >= all_benchmarks.PART_SECONDS_MAX
        self.ran.append(shlex.join(words))
        if words[0] == self.failing:
            return None
        return {"seconds": 1, "rows": []} | ({"broken": [self.broken]} if self.broken else {})


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


def test_a_part_that_misses_a_limit_is_kept_and_shown(measuring, tmp_path, capsys):
    into = tmp_path / "results.json"
    measuring.broken = "It was slow."
    words = ["--only", "hostile", "--frames", "10000000", "--minutes", "15", "--into", str(into)]
    assert run_all(words) == 1
    assert measuring.ran == ["hostile --frames 10000000 --minutes 15"]
    assert "These parts missed a limit: hostile." in capsys.readouterr().err
    assert "**Missed:** It was slow." in page(read(into)).splitlines()


def test_a_commit_that_others_cannot_find_is_said_to_be_one(measuring, monkeypatch, tmp_path):
    into = tmp_path / "results.json"
    measuring.caveats = [all_benchmarks.UNMERGED]
    assert run_all(["--only", "memory", "--into", str(into)]) == 0
    assert all_benchmarks.UNMERGED in page(read(into)).splitlines()
    assert run_all(["--only", "memory", "--into", str(into), "--resume"]) == 0
    assert len(measuring.ran) == 2, "it is measured again"
    moving = iter([("one", []), ("two", [])])
    monkeypatch.setattr(all_benchmarks, "_commit", lambda: next(moving))
    assert run_all(["--only", "memory", "--into", str(into)]) == 0
    assert read(into)["parts"]["memory"]["caveats"] == [all_benchmarks.MOVED]


def test_the_commit_of_a_changed_or_unmerged_tree_is_recorded_with_that(monkeypatch, tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, *IDENTITY, *words], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for name in ("file", "page"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-q", "-m", "One")
    monkeypatch.setattr(all_benchmarks, "CHECKOUT", tmp_path)
    monkeypatch.setattr(all_benchmarks, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(all_benchmarks, "PAGE", tmp_path / "page")
    commit, caveats = all_benchmarks._commit()
    assert len(commit) == 10
    assert caveats == []
    (tmp_path / "page").write_text("2")
    assert all_benchmarks._commit() == (commit, [])
    (tmp_path / "file").write_text("2")
    assert all_benchmarks._commit() == (f"{commit}+", [all_benchmarks.UNCOMMITTED])
    git("checkout", "-q", "-b", "work")
    git("commit", "-q", "-a", "-m", "Two")
    assert all_benchmarks._commit()[1] == [all_benchmarks.UNMERGED]


@pytest.mark.parametrize(
    ("code", "document", "kept"),
    [
        (0, {"rows": [1], "notes": ["n"], "broken": []}, {"rows": [1], "notes": ["n"]}),
        (1, {"rows": [1], "broken": ["b"]}, {"rows": [1], "broken": ["b"]}),
        (1, {"rows": [1]}, None),
        (1, None, None),
    ],
)
def test_the_figures_of_a_part_that_failed_are_kept_only_if_they_say_why(
    code, document, kept, monkeypatch
):
    def run(command, **_):
        if document is not None:
            with open(command[-1], "w") as into:
                json.dump(document, into)
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(all_benchmarks.subprocess, "run", run)
    assert all_benchmarks._run(["hostile"], 9) == (kept and {"seconds": 0, **kept})


def test_every_commit_of_the_newest_results_is_in_the_history_or_said_not_to_be():
    made_of = newest()
    here = git(all_benchmarks.CHECKOUT, "rev-parse", "--is-shallow-repository").stdout.strip()
    if made_of is None or here != "false":
        pytest.skip("there are no results, or no whole history")
    for name, measured in made_of["parts"].items():
        found = git(
            all_benchmarks.CHECKOUT, "merge-base", "--is-ancestor", measured["commit"], "HEAD"
        )
        assert not found.returncode or measured.get("caveats"), name


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
