"""Members on further hosts, driven and judged by a standalone Spark there."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.hosts.clusters import HostCluster
from bench.hosts.host import ROOT, TMP, Running
from bench.hosts.ray_hosts import RayOnHosts
from bench.hosts.spark_hosts import SparkOnHosts
from bench.load import submit
from bench.rehearsals import submit as rehearsal
from tests.hosts.conftest import NewHosts
from tests.waiting import patient, until

pytest.importorskip("pyspark")

LOAD_S = patient(150)
VERDICT = TMP / "verdict.json"
SCENARIO = """
about = "one group of either kind"
duration = "8s"
topics.t.partitions = 8
[[groups]]
name = "a"
topics = ["t"]
static = true
replicas = 6
heartbeat_interval_ms = 1000
commit_interval_ms = 1000
[[groups]]
name = "m"
protocol = "consumer"
topics = ["t"]
replicas = 6
"""


def begin_load(spark: SparkOnHosts, cluster: HostCluster, *words: str) -> Running:
    """Submit the load: 32 members in two tasks, which write their verdict."""
    given = ("--bootstrap", cluster.bootstrap, "--members", "32", "--consumer-share", "0.5")
    written = ("--tasks", "2", "--json", str(VERDICT))
    return spark.submit(Path(submit.__file__), *given, *written, *words)


def verdict_of(spark: SparkOnHosts, running: Running, code: int) -> dict[str, int]:
    """Wait for the end of a load; return the rows of its verdict."""
    ended = until(lambda: running.process.poll() is not None, LOAD_S, "the load has ended")
    assert ended
    assert running.process.returncode == code, running.said() + running.stderr.read_text()
    verdict = json.loads((spark.master.disk / VERDICT.name).read_text())
    assert verdict["clean"] is (code == 0)
    return {row["name"]: row["value"] for row in verdict["rows"]}


def rehearse(spark: SparkOnHosts, cluster: HostCluster, shared: Path) -> None:
    """Submit a scenario in two tasks; each host writes its rows into a directory of all."""
    (shared / "small.toml").write_text(SCENARIO)
    out, runs = shared / "verdict.json", shared / "histories"
    running = spark.submit(
        Path(rehearsal.__file__), str(shared / "small.toml"), "--bootstrap", cluster.bootstrap,
        "--spark", "2", "--history", str(runs), "--json", str(out),
    )  # fmt: skip
    assert until(lambda: running.process.poll() is not None, LOAD_S, "the rehearsal has ended")
    assert running.process.returncode == 0, running.said() + running.stderr.read_text()
    verdict = json.loads(out.read_text())
    assert (verdict["clean"], verdict["missing_members"]) == (True, 0)
    facts = json.loads((runs / "run_id=small" / "_run.json").read_text())
    assert (facts["rows"]["started"], facts["rows"]["final"]) == (12, 12)
    files = [*(runs / "run_id=small" / "kind=started").glob("part-*.parquet")]
    assert len(files) == 2, "each worker has written its own"
    check(spark, runs)


def check(spark: SparkOnHosts, runs: Path) -> None:
    """Let the workers check a history."""
    checked = spark.master.run(
        sys.executable, "-m", "rollcall", "check", str(runs), "--master", spark.address,
        env=spark.environment(spark.master), wait_s=LOAD_S,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.endswith("verdict: clean\n")


@pytest.mark.timeout(800)
def test_spark_submit_runs_the_load_on_two_workers_and_counts_the_members_of_a_lost_one(
    new_hosts: NewHosts,
) -> None:
    hosts = new_hosts(4)
    one, master, *workers = hosts
    ray = RayOnHosts(one)
    ray.start([one])
    cluster = HostCluster(ray, ("offsets.topic.num.partitions=1",)).up()
    spark = SparkOnHosts(master, workers)
    spark.start()

    rows = verdict_of(spark, begin_load(spark, cluster, "--seconds", "3"), code=0)
    assert rows["members"] == 32
    assert rows["acknowledged commits"] > 0

    with TemporaryDirectory(dir="/var/tmp") as shared:  # unlike /tmp it is the same on all hosts
        rehearse(spark, cluster, Path(shared))

    load = begin_load(spark, cluster, "--seconds", "5")
    load.says("32 members on host3, host4: every group is Stable.", LOAD_S)
    hosts.vanish(workers[1])
    rows = verdict_of(spark, load, code=1)
    assert rows["members that are missing"] == rows["members"] == 16
    cluster.down()


@pytest.mark.timeout(300)
def test_members_on_spark_hosts_ride_through_the_loss_of_a_host(
    hosts_are_possible: None, tmp_path: Path
) -> None:
    file = tmp_path / "verdict.json"
    done = subprocess.run(
        [
            sys.executable, "-m", "rollcall", "drill", "lose-host", "--hosts", "3",
            "--spark-hosts", "2", "--members", "200", "--json", str(file),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=patient(280), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "members are on host4, host5" in done.stdout
    rows = {row["name"]: row["value"] for row in json.loads(file.read_text())["rows"]}
    assert rows["members"] == 200
    assert rows["lost connections"] > 0, "the host had members"
