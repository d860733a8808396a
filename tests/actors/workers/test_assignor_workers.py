"""Assignor workers in a real cluster: what custom assignors do wrong, and workers that die."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from actors.deployment.starting import WORKER_NICENESS
from actors.priority import EVENT_LOOP_NICENESS
from tests.clients import modern_members
from tests.clients.wire import Wire
from tests.conftest import RunningCluster, rollcall
from tests.waiting import LONG_SESSION_MS, patient, until

METADATA, HEARTBEAT = 3, 68
PARTITIONS = 4
SESSIONS = tuple(
    f"group.{kind}.{bound}session.timeout.ms"
    for kind in ("consumer", "share", "streams")
    for bound in ("", "max.")
)
TIME_LIMIT_MS = int(patient(1.5) * 1000)
WITHIN_S = patient(60)

OWN_ASSIGNORS = """
import ctypes, time
import numpy as np
from protocol.assignors.spec import GroupAssignment, SharedAssignment
from protocol.assignors.tasks.spec import TaskAssignment
from protocol.assignors.uniform import UniformAssignor

class Raises:
    name = "raises"
    def assign(self, spec):
        raise ValueError("no idea what to do")

class Exits:
    name = "exits"
    def assign(self, spec):
        raise SystemExit(3)

class Invalid:
    name = "invalid"
    def assign(self, spec):
        return GroupAssignment(np.full(spec.partition_count, 99, np.int32))

class Hangs:
    name = "hangs"
    def assign(self, spec):
        while True:
            time.sleep(0.1)

class Stuck:
    name = "stuck"
    def assign(self, spec):
        ctypes.PyDLL(None).sleep(1000)  # and keeps the interpreter's lock

class Slow:
    name = "slow"
    def assign(self, spec):
        time.sleep(0.8)
        return UniformAssignor().assign(spec)

class Everyone:  # has every partition of a share group that has share state
    name = "everyone"
    def assign(self, spec):
        flags = spec.is_assignable  # empty: all of them
        may_be_had = np.flatnonzero(flags if len(flags) else np.ones(spec.partition_count))
        starts = np.arange(spec.member_count + 1) * len(may_be_had)
        return SharedAssignment(starts, np.tile(may_be_had, spec.member_count))

class One:  # member has every task of a streams group
    name = "one"
    def assign(self, spec):
        active = np.zeros(spec.task_count, np.int32)
        starts = np.zeros(spec.task_count + 1, np.int32)
        return TaskAssignment(active, starts, np.empty(0, np.int32))
"""
NAMES = ("raises", "exits", "invalid", "hangs", "stuck", "slow")
NAMES_OF_OTHER_TYPES = ("everyone", "one")


def install(directory: Path) -> None:
    """Put custom assignors where ``PYTHONPATH`` finds them, as an installed package would be."""
    (directory / "own_assignors.py").write_text(OWN_ASSIGNORS)
    about = directory / "own_assignors-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-assignors\nVersion: 1.0\n")
    points = "\n".join(
        f"{name} = own_assignors:{name.title()}" for name in NAMES + NAMES_OF_OTHER_TYPES
    )
    (about / "entry_points.txt").write_text(f"[rollcall.assignors]\n{points}\n")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """One coordinator, two workers, and assignors of all kinds."""
    own = tmp_path_factory.mktemp("own")
    install(own)
    settings = {
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "num.partitions": str(PARTITIONS),
        "group.consumer.assignors": ",".join(["uniform", *NAMES]),
        "group.consumer.assignment.interval.ms": "0",
        "group.share.assignors": "everyone",
        "group.share.assignment.interval.ms": "0",
        "group.streams.assignors": "one",
        "group.streams.assignment.interval.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.coordinator.background.timeout.ms": str(TIME_LIMIT_MS),
        **dict.fromkeys(SESSIONS, str(LONG_SESSION_MS)),
    }
    words = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
    cluster = RunningCluster(tmp_path_factory.mktemp("workplace") / "data", tuple(words))
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join([str(own), os.environ.get("PYTHONPATH", "")])
        patch.setenv("PYTHONPATH", path.rstrip(os.pathsep))
        stack.callback(cluster.close)
        cluster.start()
        until(lambda: pids(cluster), WITHIN_S, "both workers are there")
        yield cluster


def test_coordinators_get_a_cpu_before_any_thread_of_a_worker(workplace: RunningCluster) -> None:
    assert {each for pid in pids(workplace) for each in niceness(pid)} == {WORKER_NICENESS}


def test_an_event_loop_gets_a_cpu_before_all_other_threads(workplace: RunningCluster) -> None:
    """The coordinator lowers only that thread's niceness, as far as this user may."""
    (coordinator,) = (row["pid"] for row in workplace.status()["coordinators"])
    may = os.getuid() == 0
    assert niceness(coordinator).count(-EVENT_LOOP_NICENESS) == may
    assert set(niceness(coordinator)) == ({0, -EVENT_LOOP_NICENESS} if may else {0})


def niceness(pid: int) -> list[int]:
    """The niceness of each thread of a process, above that of this one."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    threads = (int(each.name) for each in Path(f"/proc/{pid}/task").iterdir())
    return [os.getpriority(os.PRIO_PROCESS, each) - own for each in threads]


class Member:
    """A member of a consumer group that says what it owns, and revokes at once."""

    def __init__(self, cluster: RunningCluster, group: str, name: str, assignor: str | None):
        self.server = cluster.bootstrap
        self.group, self.name, self.assignor = group, name, assignor
        self.epoch = 0
        self.owned: tuple[Any, ...] = ()

    def beat(self) -> int:
        """Heartbeat; the number of partitions owned after it."""

        def build(module: Any) -> Any:
            is_joining = self.epoch == 0
            return module.ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.name,
                member_epoch=self.epoch,
                rebalance_timeout=timedelta(seconds=60),
                subscribed_topic_names=("topic",),
                subscribed_topic_regex=None,
                server_assignor=self.assignor,
                topic_partitions=()
                if is_joining
                else tuple(
                    module.TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in self.owned
                ),
            )

        with closing(Wire(self.server)) as wire:
            answer = wire.call(HEARTBEAT, 1, build)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions
        return self.partitions

    @property
    def partitions(self) -> int:
        return sum(len(each.partitions) for each in self.owned)

    def leave(self) -> None:
        self.epoch = -1
        self.beat()


def with_topic(cluster: RunningCluster) -> None:
    def exists() -> bool:
        with closing(Wire(cluster.bootstrap)) as wire:
            answer = wire.call(
                METADATA,
                12,
                lambda module: module.MetadataRequest(
                    topics=(module.MetadataRequestTopic(topic_id=None, name="topic"),),
                    allow_auto_topic_creation=True,
                    include_topic_authorized_operations=False,
                ),
            )
        return len(answer.topics[0].partitions) == PARTITIONS

    until(exists, WITHIN_S, "the topic is there")


def pids(cluster: RunningCluster) -> tuple[int, ...]:
    """The processes of the workers; empty while one of them is not there."""
    rows = cluster.status()["workers"]
    found = tuple(row["pid"] for row in rows)
    return found if all(found) else ()


def metrics(cluster: RunningCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.status()["coordinators"][0]["metrics"]
    return found


def settled(cluster: RunningCluster, group: str, assignor: str | None = None) -> Member:
    """A group of one member that owns everything."""
    with_topic(cluster)
    member = Member(cluster, group, "first", assignor)
    until(lambda: member.beat() == PARTITIONS, WITHIN_S, f"{group} is settled")
    return member


def diary(cluster: RunningCluster, group: str) -> str:
    done = rollcall("groups", "--describe", "--group", group, "--events", "--bootstrap-server",
                    cluster.bootstrap, "--data-dir", cluster.data_dir)  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("group_type", "member", "shares"),
    [
        ("share", modern_members.ShareMember, [PARTITIONS, PARTITIONS]),
        ("streams", modern_members.StreamsMember, [0, 2 * PARTITIONS]),  # two subtopologies
    ],
)
def test_a_custom_assignor_serves_share_and_streams_groups(
    workplace: RunningCluster,
    group_type: str,
    member: type[modern_members.Member],
    shares: list[int],
) -> None:
    """The built-in assignors would give each of two members half of all."""
    with_topic(workplace)
    before = metrics(workplace)
    names = ("first", "second")
    members = [member(workplace.bootstrap, f"own-{group_type}", each, "topic") for each in names]

    def are_served() -> bool:
        for each in members:
            each.beat()
        counts = sorted(len(each.assigned) for each in members)
        return members[0].is_settled() and counts == shares

    until(are_served, WITHIN_S, "both have what the custom assignor gave them")
    after = metrics(workplace)
    for name in ("assignor-runs-in-place", "assignor-failures"):
        assert after[name] == before[name]
    for each in members:
        each.leave()


@pytest.mark.parametrize(
    ("assignor", "reason"),
    [
        ("raises", "ValueError: no idea what to do"),
        ("exits", "SystemExit"),
        ("invalid", "an invalid assignment"),
        ("hangs", f"took more than {TIME_LIMIT_MS / 1000:g} s"),
    ],
)
def test_a_custom_assignor_that_fails_leaves_the_old_target_and_tells_the_group(
    workplace: RunningCluster, assignor: str, reason: str
) -> None:
    failures = metrics(workplace)["assignor-failures"]["consumer"]
    before = pids(workplace)
    first = settled(workplace, assignor)
    second = Member(workplace, assignor, "second", assignor)
    assert second.beat() == 0
    innocent = settled(workplace, f"beside-{assignor}")
    until(lambda: reason in diary(workplace, assignor), WITHIN_S, "the diary tells it")
    assert first.beat() == PARTITIONS
    assert second.beat() == 0
    assert metrics(workplace)["assignor-failures"]["consumer"] == failures + 1
    assert innocent.beat() == PARTITIONS
    second.leave()
    until(lambda: first.beat() == PARTITIONS and first.epoch > 2, WITHIN_S, "it goes on")
    if assignor == "hangs":
        until(lambda: pids(workplace) not in ((), before), WITHIN_S, "the worker restarted")
    first.leave()
    innocent.leave()


def test_an_assignor_that_nothing_can_interrupt_ends_its_worker_and_no_more(
    workplace: RunningCluster,
) -> None:
    before = until(lambda: pids(workplace), WITHIN_S, "both workers are there")
    first = settled(workplace, "stuck")
    second = Member(workplace, "stuck", "second", "stuck")
    second.beat()
    innocent = settled(workplace, "beside-stuck")
    until(lambda: pids(workplace) not in ((), before), WITHIN_S, "the worker restarted")
    until(lambda: metrics(workplace)["assignor-runs-retried"], WITHIN_S, "it was tried again")
    second.leave()
    assert first.beat() == PARTITIONS
    assert innocent.beat() == PARTITIONS
    first.leave()
    innocent.leave()


def test_a_run_whose_worker_is_killed_is_done_by_another(workplace: RunningCluster) -> None:
    until(lambda: pids(workplace), WITHIN_S, "both workers are there")
    first = settled(workplace, "killed")
    retried = metrics(workplace)["assignor-runs-retried"]
    second = Member(workplace, "killed", "second", "slow")
    second.beat()

    def busy() -> int:
        first.beat()  # or its session ends on a slow machine
        rows = workplace.status()["workers"]
        return next((row["pid"] for row in rows if row["state"] == "Busy"), 0)

    os.kill(until(busy, WITHIN_S, "a worker is at it"), signal.SIGKILL)
    until(lambda: first.beat() == second.beat() == PARTITIONS // 2, WITHIN_S, "it was done")
    assert metrics(workplace)["assignor-runs-retried"] > retried
    first.leave()
    second.leave()


def test_without_workers_assignments_are_computed_in_place_with_a_warning(
    workplace: RunningCluster,
) -> None:
    first = settled(workplace, "alone")
    in_place = metrics(workplace)["assignor-runs-in-place"]
    until(lambda: pids(workplace), WITHIN_S, "both workers are there")
    members = [first]

    def done() -> bool:
        for worker in pids(workplace):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        members.append(Member(workplace, "alone", f"more-{len(members)}", None))
        members[-1].beat()
        return bool(metrics(workplace)["assignor-runs-in-place"] > in_place)

    until(done, WITHIN_S, "a run was done in place")
    assert "no assignor worker is alive" in workplace.log_lines("coordinator-0")
    until(lambda: pids(workplace), WITHIN_S, "both workers are back")
    again = settled(workplace, "afterwards")
    for member in (*members, again):
        member.leave()
