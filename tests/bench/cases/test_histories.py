"""``rollcall bench histories``: it makes a history, and checks it in another process."""

import json
import shutil

import pytest

pytest.importorskip("pyspark")

from bench import check
from bench.cases import histories
from bench.histories.checks import CHECKS
from bench.histories.planted import groups_of
from bench.servers.server import StartError


def verdict(found):
    return {"checks": {name: {"examples": found(name)} for name in CHECKS}}


def test_a_check_that_misses_its_fault_or_finds_another_is_told():
    right = verdict(lambda name: [{"group_id": group} for group in sorted(groups_of(name))])
    assert histories._missed(right) == []
    right["checks"]["backward"]["examples"] = []
    right["checks"]["no-owner"]["examples"].append({"group_id": "made-63"})
    free, back = (", ".join(sorted(groups_of(name))) for name in ("no-owner", "backward"))
    assert histories._missed(right) == [
        f"no-owner should have found a fault in {free} only, and found {free}, made-63.",
        f"backward should have found a fault in {back} only, and found nothing.",
    ]


def test_a_cost_that_is_the_same_with_its_fault_is_told():
    groups = {"moved": ("a", "b"), "failed": ("c", "d"), "commits": ("e", "f")}
    found = {("moved", "a"): 3, ("moved", "b"): 2, ("commits", "e"): 5, ("commits", "f"): 5}
    groups["moved: twice"], found["moved", "g"] = ("g", "b"), 2
    assert histories._not_raised(groups, found) == [
        "failed should be more in c than in d, and is 0 and 0.",
        "commits should be more in e than in f, and is 5 and 5.",
        "moved should be more in g than in b, and is 2 and 2.",
    ]


@pytest.mark.parametrize(
    ("words", "where"),
    [([], []), (["--master", "spark://10.0.0.9:7077"], ["--master", "spark://10.0.0.9:7077"])],
)
def test_the_checks_run_where_they_are_told(words, where, tmp_path):
    asked = histories._parser().parse_args(words)
    given = histories._words(tmp_path, asked)
    assert given[:4] == ["check", str(tmp_path), "--memory", "2g"]
    assert given[4:] == [*where, "--json", str(tmp_path / "verdict.json")]
    assert check._parser().parse_args(given[1:]).directory == tmp_path


@pytest.mark.parametrize("words", [["--rows", "0"], ["--rows", "many"], ["--memory", "2t"]])
def test_amounts_are_checked(words, capsys):
    with pytest.raises(SystemExit) as stop:
        histories.main(words)
    assert stop.value.code == 2
    assert "rollcall bench histories: error: " in capsys.readouterr().err


def test_that_a_history_cannot_be_made_is_told_by_the_process_that_tries(tmp_path, capfd):
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match="The history could not be made: see above"):
        histories._make(tmp_path / "file" / "runs", 1)
    assert "rollcall: [Errno 20] Not a directory: " in capfd.readouterr().err


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("java") is None, reason="PySpark needs Java 17")
def test_the_smallest_history_is_made_and_checked(tmp_path, capsys):
    out = tmp_path / "figures.json"
    assert histories.main(["--rows", "1", "--json", str(out), "--keep", str(tmp_path)]) == 0
    assert "peak_mib" in capsys.readouterr().out
    (row,) = json.loads(out.read_text())["rows"]
    assert row["median"]["rows"] > 20_000
    assert 0 < row["median"]["peak_mib"] < 4_096
