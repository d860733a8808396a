"""The members of a scenario over Spark: each task carries out its share of the plan in a process.

All tasks have one clock: they wait until they are told when the plan begins. They tell every few
seconds what their members hold (:mod:`bench.load.watching`). In the end each task packs what its
members recorded (:mod:`bench.rehearsals.spark_tasks`): these parts are the result of the Spark job.
A history that is kept is written by the tasks' processes from their own parts. Of a task that is
lost nothing comes, and its members are missing.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from actors.waiting import poll
from bench.load.driver import now_ms
from bench.load.watching import LoadWatcher
from bench.rehearsals.spark_jobs import why_failed
from bench.rehearsals.spark_tasks import (
    STARTS_S,
    CrowdPlace,
    PlanShare,
    drive_share,
    rows_of_part,
    unpacked,
)
from failover.drills.checked import DrillError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future
    from uuid import UUID

    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

    from bench.client.cluster_client import Address
    from bench.load.stability import GroupShare
    from bench.rehearsals.spark_history import SparkHistory
    from bench.rehearsals.stages import CrowdCluster
    from bench.scenarios.plan import ScenarioPlan
    from bench.scenarios.record import LifeRecord
    from bench.scenarios.scenario import Scenario

TAKES_S: Final = 120.0
"""How long the tasks may take to have their members' records."""
PACKS_S: Final = 300.0
"""How long they may take to pack them, and Spark to give up those on a host that is gone."""
START_MS: Final = 500
"""What is left to the begin of the plan when the tasks are told."""


@dataclass(frozen=True, slots=True)
class SparkTasks:
    """How many tasks of which Spark drive the members, and what writes what they lived through."""

    session: SparkSession
    count: int
    history: SparkHistory | None = None


class LostMembers:
    """How many members were due to be in each task when it was seen that the task is lost."""

    def __init__(self, share: PlanShare) -> None:
        self._share = share
        self._began_s: float | None = None
        self._found: dict[int, int] = {}

    def begin(self, began_s: float) -> None:
        """Note when the plan begins, of ``time.monotonic``."""
        self._began_s = began_s

    def of(self, lost: Sequence[int]) -> dict[int, int]:
        """Return their number by task; these tasks are lost now."""
        now_s = time.monotonic()
        for task in lost:
            if task not in self._found:
                began_s = now_s if self._began_s is None else self._began_s
                at_ms = max(int((now_s - began_s) * 1000), 0)
                self._found[task] = self._share.members(task, at_ms)
        return {task: self._found[task] for task in lost}


class SparkCrowd:
    """All members of a scenario over Spark: a :class:`bench.rehearsals.real.ScenarioCrowd`."""

    def __init__(
        self,
        spark: SparkTasks,
        scenario: Scenario,
        plan: ScenarioPlan,
        place: CrowdCluster,
        topic_names: Mapping[UUID, str],
    ) -> None:
        self._session, self._tasks, self._history = spark.session, spark.count, spark.history
        self._context = spark.session.sparkContext
        self._scenario = scenario
        self._partitions = scenario.partitions_by_group()
        host = str(self._context.getConf().get("spark.driver.host"))
        self._watcher = LoadWatcher(host, spark.count)
        self._share = PlanShare(
            scenario=scenario,
            plan=plan,
            place=CrowdPlace(
                bootstrap=tuple(place.bootstrap),
                versions=dict(place.versions),
                names=place.names,
                leaves=place.leaves,
                command_config=place.command_config,
            ),
            topic_names=dict(topic_names),
            watcher=self._watcher.address,
            tasks=spark.count,
        )
        self._missing = LostMembers(self._share)
        self._thread = ThreadPoolExecutor(1, "spark job")
        self._parts: RDD[bytes] | None = None
        self._job: Future[list[bytes]] | None = None
        self._lost: list[int] | None = None
        self._stalled_ms = 0

    def __enter__(self) -> Self:
        self._watcher.__enter__()
        self._job = self._thread.submit(self._run)
        try:
            if not poll(self._is_ready, STARTS_S):
                raise DrillError(
                    f"Spark runs {len(self._watcher.hosts)} of {self._tasks} tasks after"
                    f" {STARTS_S:g} s: give it as many cores, or fewer tasks by --spark."
                )
            if why := unreachable(self._share.place.bootstrap, self._watcher.hosts):
                raise DrillError(why)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._watcher.__exit__()  # a task that nobody watches ends
        if self._job is not None and not self._job.done():
            with contextlib.suppress(Exception):  # Spark itself may be gone
                self._context.cancelAllJobs()
        self._thread.shutdown()

    def _run(self) -> list[bytes]:
        from pyspark import StorageLevel

        numbers = self._context.parallelize(range(self._tasks), self._tasks)
        self._parts = numbers.mapPartitions(partial(drive_share, self._share))
        if self._history is not None:
            self._parts.persist(StorageLevel.DISK_ONLY)
        return self._parts.collect()

    def _is_ready(self) -> bool:
        self.check()
        for sentence in self._watcher.lost():
            raise DrillError(sentence)
        return len(self._watcher.hosts) == self._tasks

    def begin(self, began_s: float) -> None:
        """Carry out the plan, which begins at this time of ``time.monotonic``."""
        self._missing.begin(began_s)
        began_ms = now_ms() + int((began_s - time.monotonic()) * 1000)
        self._watcher.tell({"began_ms": began_ms})

    def check(self) -> None:
        """Raise what went wrong in the job; tasks that are lost are missing, unless all are."""
        if self._job is not None and self._job.done():
            result_of(self._job)
            raise DrillError(" ".join(self.lost()) or "The load on Spark ended before its time.")

    def shares(self) -> Mapping[str, GroupShare]:
        """Return what the members that are there now hold of each group."""
        return self._watcher.shares()

    def counts(self) -> Counter[str]:
        """Return what the tasks have counted."""
        return self._watcher.counts()

    def has_unowned(self) -> bool:
        """Whether a group has members, and fewer partitions with an owner than there are."""
        return any(
            share.owned < len(self._partitions[name]) for name, share in self.shares().items()
        )

    def records(self) -> list[LifeRecord]:
        """Let all members end, and return the record of every life that was not lost."""
        lost = self._watcher.lost_tasks()
        self._watcher.end(0, TAKES_S)
        assert self._job is not None
        poll(self._job.done, PACKS_S)
        if not self._job.done():
            raise DrillError(f"The tasks did not return their records within {PACKS_S:g} s.")
        found: list[LifeRecord] = []
        there: set[int] = set()
        for data in result_of(self._job):
            part = unpacked(data)
            there.add(part.task)
            found += part.lives
            self._stalled_ms = max(self._stalled_ms, part.stalled_ms)
        self._lost = sorted({*lost, *range(self._tasks)} - there)
        if self._history is not None:
            self._history.append(self._rows())
            assert self._parts is not None
            self._parts.unpersist()
        return found

    def _rows(self) -> DataFrame:
        """Return the rows of all lives, as the tasks' processes keep them: none comes here."""
        from bench.histories.schema import SCHEMA

        assert self._parts is not None
        rows = self._parts.flatMap(partial(rows_of_part, self._scenario))
        return self._session.createDataFrame(rows, SCHEMA, verifySchema=False)

    def stalled_ms(self) -> int:
        """Return the longest stall of a task."""
        return self._stalled_ms

    def lost(self) -> list[str]:
        """Return a sentence for each task that was lost."""
        return [
            f"{self._watcher.sentence(task).removesuffix('.')}; {members} members are missing."
            for task, members in self._missing.of(self._lost_tasks()).items()
        ]

    def missing(self) -> int:
        """Return how many members were lost with their tasks."""
        return sum(self._missing.of(self._lost_tasks()).values())

    def _lost_tasks(self) -> Sequence[int]:
        return self._watcher.lost_tasks() if self._lost is None else self._lost

    def clock_error_ms(self) -> int:
        """Return how far the clocks of the tasks' hosts may differ."""
        return self._watcher.clock_error_ms()


def unreachable(bootstrap: Sequence[Address], hosts: Sequence[str]) -> str:
    """Say which host cannot reach a cluster that listens on this machine alone; "" if all can."""
    others = sorted({*hosts} - {socket.gethostname()})
    if not others or not all(_is_loopback(host) for host, _ in bootstrap):
        return ""
    return (
        f"Tasks of Spark are on {', '.join(others)}, from where {bootstrap[0][0]} is no address of"
        " the cluster: name a running cluster by --bootstrap."
    )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def result_of(job: Future[list[bytes]]) -> list[bytes]:
    """Return the result of a job that has ended; raises DrillError with Spark's reason."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return job.result()
    except (PySparkException, Py4JError) as error:
        raise DrillError(f"The load on Spark failed: {why_failed(error)}") from None
