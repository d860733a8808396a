"""A scenario's members over Spark: how a plan is dealt out, and what comes back of a task."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from bench.client.cluster_client import ClusterClient
from bench.load.driver import now_ms
from bench.load.watching import LoadWatcher
from bench.rehearsals.spark_crowd import CrowdPlace, PlanShare, drive_share, task_of, unpacked
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


def share_of(watcher=("127.0.0.1", 1), bootstrap=(), topic_names=None) -> PlanShare:
    scenario = parse("s", TEXT)
    return PlanShare(
        scenario=scenario,
        plan=expand(scenario),
        place=CrowdPlace(
            bootstrap=bootstrap, versions=newest(), names=ClusterNames(), leaves=False
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


def test_two_tasks_begin_at_one_time_and_return_what_their_members_recorded(node):
    client = ClusterClient([node.address], newest())
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
        lives = [
            life for task in tasks for part in task.result(WITHIN_S) for life in unpacked(part)[0]
        ]
    starts = Counter(step.life for step in share.plan.steps if isinstance(step.action, Start))
    assert Counter(each.life for each in lives) == starts
    held = [
        partition for each in lives if each.life.group == "a" for partition in each.timeline.holds
    ]
    assert sorted(held) == [("t", index) for index in range(12)]
    modern = [each.timeline.events[0].member_id for each in lives if each.life.group == "m"]
    assert len(set(modern)) == 6, "each makes up an id of its own"
