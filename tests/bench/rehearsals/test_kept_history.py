"""The history of a simulated run on disk: written once, and whole or not at all.

These tests are beside others that use Spark, as they share its Java.
"""

import json
import shutil

import pytest

pytest.importorskip("pyspark")

from bench.rehearse import main
from bench.scenarios import history
from tests.small_disk import fill, mounted

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.skipif(shutil.which("java") is None, reason="PySpark needs Java 17"),
]

SCENARIO = """
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
    path.write_text(SCENARIO)
    return path


def test_a_history_can_be_kept_once(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(history, "ROWS_AT_ONCE", 7)
    runs = tmp_path / "histories"
    words = ["--simulate", str(file), "--history", str(runs)]
    assert main(words) == 0
    run = runs / "run_id=small"
    said = capsys.readouterr().out
    assert f"the history is in {run}\n" in said
    assert " rows) found no broken promise.\nclean\n" in said
    rows = json.loads((run / "_run.json").read_text())["rows"]
    assert rows["started"] == 3
    assert sum(rows.values()) > history.ROWS_AT_ONCE, "it is written in parts"
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.err == f"rollcall: {run} exists: remove it, or name another directory.\n"
    assert told.out == "", "that is known before the run"


def test_a_history_on_a_full_disk_is_not_half_written(file, tmp_path, capsys):
    with mounted(tmp_path / "small") as disk:
        fill(disk)
        assert main(["--simulate", str(file), "--history", str(disk / "runs")]) == 2
        told = capsys.readouterr()
        assert "rollcall: The rehearsal could not be completed: " in told.err
        assert f"A run cannot be written to {disk / 'runs'}" in told.err
        assert "\nNOT CLEAN\n" in told.out
        assert [*disk.rglob("run_id=*")] == []
