"""Members over Spark with workers of their own: one run is whole, one loses a worker's executor.

A second session of Spark is worth its start: in local mode no executor can be lost, and no task
writes its history in a process of its own.
"""

import json
import os
import shutil
import signal
import threading

import psutil
import pytest

pytest.importorskip("pyspark")

from actors.cli.client import shown
from bench.load.watching import LoadWatcher
from bench.rehearsals import masters
from bench.rehearse import main
from tests.waiting import WITHIN_S, patient, until

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.skipif(shutil.which("java") is None, reason="PySpark needs Java 17"),
]

SCENARIO = """
about = "a static and a dynamic group"
duration = "22s"
topics.t.partitions = 12
[[groups]]
name = "a"
topics = ["t"]
static = true
replicas = 8
heartbeat_interval_ms = 500
session_timeout_ms = 6000
commit_interval_ms = 1000
[[groups]]
name = "m"
topics = ["t"]
replicas = 8
heartbeat_interval_ms = 500
session_timeout_ms = 6000
[[variants]]
name = "again"
"""


def executors():
    """Return the processes of Spark's executors, which are started by its JVM."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if "CoarseGrainedExecutorBackend" in " ".join(_words(process))
    ]


def _words(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_executors_write_what_they_saw_and_a_lost_one_leaves_its_members_missing(
    node, tmp_path, capsys, monkeypatch
):
    file, out, runs = tmp_path / "s.toml", tmp_path / "v.json", tmp_path / "histories"
    file.write_text(SCENARIO)
    watchers, killed = [], []
    enter = LoadWatcher.__enter__
    monkeypatch.setattr(masters, "WARM_S", patient(masters.WARM_S))
    monkeypatch.setattr(LoadWatcher, "__enter__", lambda each: watchers.append(each) or enter(each))

    def kill():
        """Kill an executor in the middle of the second run."""
        until(lambda: len(watchers) == 2, patient(300), "the second run begins")
        until(
            lambda: sum(share.members for share in watchers[1].shares().values()) == 16,
            WITHIN_S,
            "all members are there",
        )
        killed.append(executors()[0].pid)
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    code = main(
        [
            str(file), "--bootstrap", shown(node.address), "--spark", "2",
            "--master", "local-cluster[2,1,512]", "--history", str(runs), "--json", str(out),
        ]
    )  # fmt: skip
    killer.join()
    told = capsys.readouterr()
    assert code == 1, told.out + told.err
    whole, lossy = json.loads(out.read_text())["runs"]

    assert (whole["clean"], whole["missing_members"]) == (True, 0), told.out
    assert whole["groups"]["a"]["members"] + whole["groups"]["m"]["members"] == 16
    facts = json.loads((runs / "run_id=s-base" / "_run.json").read_text())
    assert (facts["rows"]["started"], facts["rows"]["final"]) == (16, 16)
    assert facts["missing_members"] == 0
    files = [*(runs / "run_id=s-base" / "kind=started").glob("part-*.parquet")]
    assert len(files) == 2, "each task has written its own"

    missing = lossy["missing_members"]
    assert not lossy["clean"]
    assert 0 < missing < 16
    (sentence,) = lossy["violations"]["processes of members that were lost"]
    assert sentence.endswith(f"has ended; {missing} members are missing.")
    assert sentence in told.out, "it is told when it happens"
    assert f", {missing} missing" in told.out, "and in each line of progress"
    facts = json.loads((runs / "run_id=s-again" / "_run.json").read_text())
    assert facts["rows"]["started"] == 16 - missing
    assert facts["missing_members"] == missing
    assert [*runs.glob(".partial*")] == []
