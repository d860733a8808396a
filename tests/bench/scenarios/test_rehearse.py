"""``rollcall rehearse``: what it prints and returns."""

import json
import shutil

import pytest

from bench.rehearse import main
from bench.scenarios import history
from bench.scenarios.files import names
from bench.servers.processes import free_port

SMALL = """
about = "three members"
duration = "20s"
topics.t.partitions = 3
[[groups]]
name = "a"
topics = ["t"]
behaviours = [{ do = "scale", at = "5s", replicas = 2 }]
"""


VARIANTS = """
[[variants]]
name = "pods"
groups.a = { static = true, workload = "StatefulSet", behaviours = [] }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_the_list_names_every_scenario(capsys):
    assert main(["--simulate", "--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(names())


def test_a_clean_verdict_is_a_table_and_a_document(file, tmp_path, capsys):
    out = tmp_path / "verdict.json"
    assert main(["--simulate", str(file), "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "three members; 3 members, 20 s" in printed
    assert "5.0 s  a: scale" in printed
    assert printed.endswith("clean\n")
    document = json.loads(out.read_text())
    assert (document["scenario"], document["run"], document["clean"]) == (
        "small", "simulated", True,
    )  # fmt: skip
    assert document["groups"]["a"]["rebalances"] == 1
    assert list(tmp_path.glob("*.partial")) == []


def test_what_costs_more_than_expected_fails(file, capsys):
    file.write_text(SMALL + "expect = { rebalances_max = 0 }\n")
    assert main(["--simulate", str(file)]) == 1
    assert "a: 1 rebalances, and at most 0 were expected.\nNOT CLEAN" in capsys.readouterr().out


def test_a_report_is_a_page_and_its_document(file, tmp_path):
    page, data = tmp_path / "r.html", tmp_path / "r.json"
    assert main(["--simulate", str(file), "--report", str(page), "--report", str(data)]) == 0
    assert page.read_text().startswith("<!doctype html>")
    (run,) = json.loads(data.read_text())["runs"]
    assert (run["name"], run["duration_ms"], run["changed_ms"]) == ("small", 20_000, 5_000)
    assert run["marks"] == [{"at_ms": 5_000, "text": "scale", "group": "a"}]
    assert run["stories"][0]["rebalances"][-1]["cause"].endswith(" left")


def test_a_report_that_cannot_be_written_is_refused_before_the_run(file, tmp_path, capsys):
    for name in ("r.txt", "missing/r.html"):
        with pytest.raises(SystemExit) as ended:
            main(["--simulate", str(file), "--report", str(tmp_path / name)])
        assert ended.value.code == 2
        assert "argument --report: " in capsys.readouterr().err


def test_bad_input_is_one_sentence(file, capsys):
    file.write_text(SMALL.replace("20s", "20"))
    for words in (["nothing"], [str(file)], ["missing.toml"]):
        assert main(["--simulate", *words]) == 2
        said = capsys.readouterr().err
        assert said.startswith("rollcall: ")
        assert said.count("\n") == 1


def test_a_document_that_cannot_be_written_is_told(file, capsys):
    assert main(["--simulate", str(file), "--json", "/proc/verdict.json"]) == 1
    assert "The rehearsal could not be completed: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--variant", "none"], "There is no variant 'none': use base."),
        (["--fail-on", "b:rebalances>1"], "--fail-on b:rebalances>1: there is no such group."),
    ],
)
def test_an_option_that_does_not_fit_is_told_before_the_run(file, capsys, words, sentence):
    assert main(["--simulate", str(file), *words]) == 2
    told = capsys.readouterr()
    assert told.err.endswith(f"{sentence}\n")
    assert told.out == ""


def test_a_cluster_that_does_not_answer_is_bad_input(file, capsys):
    at = f"127.0.0.1:{free_port()}"
    for words, sentence in ((at, f"{at} cannot be reached"), ("x", "'x' is not a bootstrap")):
        assert main([str(file), "--bootstrap", words]) == 2
        assert f"rollcall: {sentence}" in capsys.readouterr().err


@pytest.mark.parametrize("condition", ["rebalances", "rebalances>", "rebalance>1", "rebalances>x"])
def test_a_condition_that_makes_no_sense_is_told(file, capsys, condition):
    with pytest.raises(SystemExit) as ended:
        main(["--simulate", str(file), "--fail-on", condition])
    assert ended.value.code == 2
    assert "--fail-on" in capsys.readouterr().err


def test_a_condition_to_fail_on_decides_the_exit_code(file, tmp_path, capsys):
    out = tmp_path / "v.json"
    words = ["--simulate", str(file), "--json", str(out)]
    assert main([*words, "--fail-on", "rebalances>1", "--fail-on", "a: failed_members >= 1"]) == 0
    assert main([*words, "--fail-on", "rebalances>=1"]) == 1
    sentence = "simulated, base, a: 1 rebalances: fails on rebalances>=1."
    assert f"{sentence}\nNOT CLEAN" in capsys.readouterr().out
    document = json.loads(out.read_text())
    assert (document["clean"], document["fail_on"]) == (False, [sentence])


def test_variants_are_compared(file, tmp_path, capsys):
    file.write_text(SMALL + VARIANTS)
    out, page = tmp_path / "v.json", tmp_path / "v.md"
    assert main(["--simulate", str(file), "--json", str(out), "--markdown", str(page)]) == 0
    best = (
        "simulated: pods costs least: 0 unavailable member-seconds, 0 rebalances, 0 partitions"
        " moved. Then base: "
    )
    assert best in capsys.readouterr().out
    document = json.loads(out.read_text())
    assert [each["variant"] for each in document["runs"]] == ["base", "pods"]
    assert [each["groups"]["a"]["rebalances"] for each in document["runs"]] == [1, 0]
    assert document["best"][0].startswith(best)
    lines = page.read_text().splitlines()
    assert lines[0] == "### Rehearsal of small: clean"
    assert lines[2].startswith("| run | variant | group | members | protocol | generation |")
    assert lines[5].startswith("| simulated | pods | a | 3 | classic, static | ")
    assert lines[-1].startswith(f"- {best}")
    assert main(["--simulate", str(file), "--variant", "pods"]) == 0
    assert "classic, dynamic" not in capsys.readouterr().out


def test_the_page_has_the_variants_side_by_side_and_what_fails(file, tmp_path, capsys):
    file.write_text(SMALL + VARIANTS)
    out = tmp_path / "r.json"
    words = ["--simulate", str(file), "--report", str(out), "--fail-on", "rebalances>=1"]
    assert main(words) == 1
    document = json.loads(out.read_text())
    names = [run["name"] for run in document["runs"]]
    assert names[0] == "base"
    assert len(names) > 1
    assert not document["is_clean"]
    assert document["verdict"].startswith("simulated, base, a: ")


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.skipif(shutil.which("java") is None, reason="PySpark needs Java 17")
def test_a_history_can_be_kept_once(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(history, "ROWS_AT_ONCE", 7)
    runs = tmp_path / "histories"
    words = ["--simulate", str(file), "--history", str(runs)]
    assert main(words) == 0
    run = runs / "run_id=small"
    assert f"the history is in {run}\n" in capsys.readouterr().out
    rows = json.loads((run / "_run.json").read_text())["rows"]
    assert rows["started"] == 3
    assert sum(rows.values()) > history.ROWS_AT_ONCE, "it is written in parts"
    assert main(words) == 1
    assert f"{run} exists: remove it" in capsys.readouterr().err
