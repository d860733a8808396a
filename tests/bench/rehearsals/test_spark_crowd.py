"""A scenario's members over Spark: how a plan is dealt out, and what comes back of a task."""

import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from types import SimpleNamespace

from bench.client.cluster_client import ClusterClient
from bench.load.driver import now_ms
from bench.load.watching import LoadWatcher, Watched
from bench.rehearsals import spark_crowd
from bench.rehearsals.spark_crowd import unreachable
from bench.rehearsals.spark_jobs import bounded, why_failed
from bench.rehearsals.spark_tasks import (
    CrowdPlace,
    PlanShare,
    drive_share,
    rows_of_part,
    task_of,
    unpacked,
)
from bench.scenarios.files import parse
from bench.scenarios.members import ClusterNames
from bench.scenarios.plan import Life, Start, expand
from protocol.client.versions import newest
from tests.waiting import WITHIN_S, until

TEXT = """
about = "x"
duration = "1m"
topics.t.partitions = 12
[[groups]]
name = "a"
topics = ["t"]
static = true
replicas = 12
heartbeat_interval_ms = 200
behaviours = [{ do = "restart", at = "2s", pods = 3, away = "0s" }]
[[groups]]
name = "m"
protocol = "consumer"
topics = ["t"]
replicas = 6
"""


SCALED = """
about = "pods that come and go"
duration = "1m"
topics.t.partitions = 12
[[groups]]
name = "a"
topics = ["t"]
replicas = 4
start_time = "1s"
stop_time = "1s"
behaviours = [
    { do = "scale", at = "10s", replicas = 10 },
    { do = "scale", at = "20s", replicas = 2 },
]
"""


def share_of(watcher=("127.0.0.1", 1), bootstrap=(), topic_names=None) -> PlanShare:
    scenario = parse("s", TEXT)
    return PlanShare(
        scenario=scenario,
        plan=expand(scenario),
        place=CrowdPlace(
            bootstrap=bootstrap,
            versions=newest(),
            names=ClusterNames(),
            leaves=False,
            command_config=None,
        ),
        topic_names=topic_names or {},
        watcher=watcher,
        tasks=2,
    )


def test_every_step_is_in_one_task_and_all_lives_of_a_pod_in_the_same():
    share = share_of()
    parts = [share.of(task).steps for task in range(2)]
    assert sorted(parts[0] + parts[1], key=str) == sorted(share.plan.steps, key=str)
    names = [{step.life.name for step in part} for part in parts]
    assert all(names)
    assert not names[0] & names[1]
    assert task_of(Life("a", "x", 1), 5) == task_of(Life("a", "x", 2), 5)


def test_each_task_knows_how_many_members_are_lost_with_it():
    share = share_of()
    names = [
        {(step.life.group, step.life.name) for step in share.of(task).steps} for task in range(2)
    ]
    assert [share.members(task, 0) for task in range(2)] == [len(each) for each in names]
    assert sum(share.members(task, 0) for task in range(2)) == 18


def test_only_members_that_were_due_to_be_there_are_lost_with_a_task():
    """The others had ended before, or had not started yet."""
    scenario = parse("s", SCALED)
    share = replace(share_of(), scenario=scenario, plan=expand(scenario))
    for at_ms, there in ((0, 4), (9_999, 4), (15_000, 10), (25_000, 2), (40_000, 2)):
        assert sum(share.members(task, at_ms) for task in range(2)) == there


def test_a_task_is_lost_with_the_members_of_the_moment_in_which_it_is_seen(monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr(spark_crowd, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    scenario = parse("s", SCALED)
    lost = []
    crowd = spark_crowd.LostMembers(replace(share_of(), scenario=scenario, plan=expand(scenario)))
    crowd.begin(100.0)
    assert crowd.of(lost) == {}
    now_s[0] = 115.0
    there = crowd.of([0])
    now_s[0] = 125.0
    later = crowd.of([0, 1])
    assert later[0] == there[0]
    assert there[0] + later[1] < 10


def test_a_task_that_was_there_before_is_not_driven_again(node):
    client = ClusterClient([node.address])
    client.create_topic("t", 12)
    with LoadWatcher("127.0.0.1", 2) as watcher:
        share = share_of(watcher.address, (node.address,), client.topic_names(["t"]))
        with Watched(watcher.address, 1):
            until(lambda: watcher.hosts, WITHIN_S, "it is there")
        until(watcher.lost, WITHIN_S, "it is lost")
        assert [*drive_share(share, [1])] == []


def test_tasks_that_cannot_reach_a_cluster_of_this_machine_are_told():
    here, there = socket.gethostname(), "host9"
    for bootstrap in ([("127.0.0.1", 1)], [("localhost", 1)], [("::1", 1)]):
        assert not unreachable(bootstrap, [here, here])
        assert unreachable(bootstrap, [here, there]).startswith("Tasks of Spark are on host9, from")
    assert not unreachable([("10.0.0.1", 1)], [here, there])


def test_a_job_that_spark_never_ends_is_cancelled():
    class Context:
        def cancelAllJobs(self):  # noqa: N802 - Spark's name
            cancelled.set()

    cancelled = Event()
    with bounded(Context(), 600):
        pass
    assert not cancelled.is_set()
    with bounded(Context(), 0.01):
        assert cancelled.wait(WITHIN_S)


def test_a_failure_of_spark_is_told_by_the_error_of_its_task():
    of_a_task = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 2 times (1.2.3.4
executor 0): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "watching.py", line 1, in __init__
bench.load.watching.WatchError: Nobody watches the load at 127.0.0.1:1.
"""
    said = "bench.load.watching.WatchError: Nobody watches the load at 127.0.0.1:1."
    assert why_failed(RuntimeError(of_a_task)) == said
    of_spark = "An error occurred while calling o1.\n: org.apache.spark.SparkException: It ended."
    assert why_failed(RuntimeError(of_spark)) == "It ended."
    assert why_failed(RuntimeError("")) == "RuntimeError"
    assert why_failed(RuntimeError("All masters are unresponsive!\nmore")) == (
        "All masters are unresponsive!"
    )


def test_two_tasks_begin_at_one_time_and_return_what_their_members_recorded(node):
    client = ClusterClient([node.address])
    client.create_topic("t", 12)
    with LoadWatcher("127.0.0.1", 2) as watcher, ThreadPoolExecutor(2) as pool:
        share = share_of(watcher.address, (node.address,), client.topic_names(["t"]))
        tasks = [pool.submit(lambda n=number: [*drive_share(share, [n])]) for number in range(2)]
        until(lambda: len(watcher.hosts) == 2, WITHIN_S, "both tasks wait")
        watcher.tell({"began_ms": now_ms()})
        until(
            lambda: (
                watcher.counts()["steps"] == len(share.plan.steps)
                and {share.members for share in watcher.shares().values()} == {6, 12}
                and watcher.shares()["a"].owned == 12
            ),
            WITHIN_S,
            "the plan is carried out, and every partition has an owner",
        )
        counts = watcher.counts()
        assert counts["requests"] > len(share.plan.steps)
        assert 0 <= counts["late requests"] < counts["requests"]
        watcher.end(0, WITHIN_S)
        data = [part for task in tasks for part in task.result(WITHIN_S)]
    parts = [unpacked(part) for part in data]
    assert sorted(part.task for part in parts) == [0, 1]
    lives = [life for part in parts for life in part.lives]
    kinds = Counter(row.kind for part in data for row in rows_of_part(share.scenario, part))
    assert kinds["started"] == len(lives)
    assert kinds["committed"] > 0
    starts = Counter(step.life for step in share.plan.steps if isinstance(step.action, Start))
    assert Counter(each.life for each in lives) == starts
    held = [
        partition for each in lives if each.life.group == "a" for partition in each.timeline.holds
    ]
    assert sorted(held) == [("t", index) for index in range(12)]
    modern = [each.timeline.events[0].member_id for each in lives if each.life.group == "m"]
    assert len(set(modern)) == 6, "each makes up an id of its own"
