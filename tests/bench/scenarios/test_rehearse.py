"""``rollcall rehearse``: what it prints and returns."""

import json

import pytest

from bench.rehearse import main
from bench.scenarios.files import names

SMALL = """
about = "three members"
duration = "20s"
topics.t.partitions = 3
[[groups]]
name = "a"
topics = ["t"]
behaviours = [{ do = "scale", at = "5s", replicas = 2 }]
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


def test_bad_input_is_one_sentence(file, capsys):
    file.write_text(SMALL.replace("20s", "20"))
    for words in (["nothing"], [str(file)], ["missing.toml"]):
        assert main(["--simulate", *words]) == 2
        said = capsys.readouterr().err
        assert said.startswith("rollcall: ")
        assert said.count("\n") == 1


def test_a_document_that_cannot_be_written_is_told(file, capsys):
    assert main(["--simulate", str(file), "--json", "/proc/none/verdict.json"]) == 1
    assert "The rehearsal could not be completed: " in capsys.readouterr().err
