"""All drills on hosts, one after the other: what is run and kept, and the table made of it."""

import json
import subprocess

import pytest

from bench.host_drills import all_drills
from bench.host_drills.all_drills import DrillOnHosts, main, runs_of
from bench.host_drills.table import HOST_COUNTS, HOST_DRILLS
from failover.drills.verdict import DrillRecord, Verdict, VerdictRow, judge

FIGURES = {
    "partitions with two owners": 0,
    "lost writes": 0,
    "rebalances": 0,
    "without a heartbeat, p50 ms": 1234,
    "without a heartbeat, p99 ms": 5678,
    "without a heartbeat, max ms": None,
}


def verdict(name, *, is_clean=True):
    rows = [VerdictRow(name=row, value=value) for row, value in FIGURES.items()]
    rows.append(VerdictRow(name="expelled members", value=0 if is_clean else 1, limit=0))
    return Verdict(drill=name, rows=tuple(rows))


@pytest.fixture
def ran(monkeypatch):
    """The drills that were run; drain-host is not clean the first time, cut-host fails always."""
    found = []

    def run(self):
        first = (self.drill, self.hosts) not in found
        found.append((self.drill, self.hosts))
        if self.drill == "cut-host":
            self.file.with_suffix(".log").write_text("it began\nThe drill | failed.\n")
            return
        made = verdict(self.drill, is_clean=not (self.drill == "drain-host" and first))
        self.file.write_text(json.dumps(made.document()))

    monkeypatch.setattr(DrillOnHosts, "run", run)
    return found


def test_every_drill_is_run_on_every_number_of_hosts_that_it_can_have(ran, tmp_path):
    assert main(["--directory", str(tmp_path)]) == 1
    assert ran == [
        (row.name, count)
        for row in HOST_DRILLS.values()
        for count in HOST_COUNTS
        if count >= row.hosts_min
    ]
    results = json.loads((tmp_path / "all.json").read_text())
    assert [(each["drill"], each["hosts"]) for each in results] == ran
    unclean = {each["drill"] for each in results if not each["clean"]}
    assert unclean == {"cut-host", "drain-host"}


def test_what_is_clean_is_not_run_again(ran, tmp_path, capsys):
    words = ["lose-host", "drain-host", "--hosts", "3", "--directory", str(tmp_path)]
    assert main(words) == 1
    assert main(words) == 0
    assert ran == [("lose-host", 3), ("drain-host", 3), ("drain-host", 3)]
    assert main([*words, "--table"]) == 0
    assert len(ran) == 3
    assert "2 of 2: drain-host on 3 hosts: not clean\n" in capsys.readouterr().out


def test_the_table_has_each_verdict_or_why_there_is_none(ran, tmp_path):
    words = ["lose-host", "cut-host", "--hosts", "5", "--directory", str(tmp_path)]
    main(words)
    *_, clean, failed = (tmp_path / "all.md").read_text().splitlines()
    assert clean == "| `lose-host` | 5 | clean | 0 | 0 | 0 | 1,234 | 5,678 | – |"  # noqa: RUF001
    assert failed.startswith("| `cut-host` | 5 | The drill \\| failed. | ")


def test_the_columns_are_rows_of_a_verdict():
    drill = HOST_DRILLS["lose-host"].drill()
    judged = judge(drill, DrillRecord(stories=(), committed={}, fault_ms=0, replicated_ms=0))
    assert set(all_drills.COLUMNS.values()) <= {row.name for row in judged.rows}


def test_an_unknown_drill_is_bad_input(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["lose-hosts", "--directory", str(tmp_path)])
    assert ended.value.code == 2
    assert "'lose-hosts' is none of lose-host, " in capsys.readouterr().err


def test_a_drill_that_takes_too_long_is_stopped(tmp_path, monkeypatch):
    class Endless:
        def __init__(self, words, stdout, stderr):
            self.words, self.said, self.code = words, stdout, None

        def wait(self, seconds=None):
            if self.code is None:
                raise subprocess.TimeoutExpired(self.words, seconds)

        def poll(self):
            return self.code

        def terminate(self):
            self.code = 1

    monkeypatch.setattr(all_drills.subprocess, "Popen", Endless)
    (run,) = runs_of(["lose-host"], [3], tmp_path)
    assert run.outcome() == "not run"
    run.run()
    assert run.outcome() == "It was stopped after 900 s."
