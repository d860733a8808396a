"""The members of a scenario over Spark: each task carries out its share of the plan in a process.

All tasks have one clock: they wait until they are told when the plan begins. They tell every few
seconds what their members hold (:mod:`bench.load.watching`). In the end each task packs what its
members recorded, some lives at a time: these parts are the result of the Spark job. A task that is
lost is not run again: its members' histories are gone, and the verdict says so.
"""

from __future__ import annotations

import pickle
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from actors.coordinator import gc_tuning
from actors.waiting import poll
from bench.load.driver import now_ms
from bench.load.watching import LoadWatcher, Watched, WatchError
from bench.rehearsals.crowd import PlannedCrowd
from failover.drills.checked import DrillError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from uuid import UUID

    from pyspark import SparkContext

    from bench.client.cluster_client import Address
    from bench.load.stability import GroupShare
    from bench.rehearsals.stages import CrowdCluster
    from bench.scenarios.members import ClusterNames
    from bench.scenarios.plan import Life, ScenarioPlan
    from bench.scenarios.record import LifeRecord
    from bench.scenarios.scenario import Scenario

LOCAL: Final = "127.0.0.1"
STARTS_S: Final = 120.0
"""How long the tasks may take until all wait for the plan to begin."""
TAKES_S: Final = 120.0
"""How long they may take to have their members' records."""
PACKS_S: Final = 300.0
"""How long they may take to pack them."""
TELL_S: Final = 5.0
"""How often a task looks at all its members and tells what they hold."""
LIVES_EACH: Final = 500
"""Lives in one packed part."""
START_MS: Final = 500
"""What is left to the begin of the plan when the tasks are told."""


@dataclass(frozen=True, slots=True)
class SparkTasks:
    """How many tasks of which Spark drive the members."""

    context: SparkContext
    count: int


@dataclass(slots=True, kw_only=True)
class CrowdPlace:
    """What members must know of their cluster: :class:`bench.rehearsals.stages.CrowdCluster`."""

    bootstrap: tuple[Address, ...]
    versions: Mapping[int, int]
    names: ClusterNames
    leaves: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanShare:
    """What the tasks of a plan are given; each drives the members that are its own."""

    scenario: Scenario
    plan: ScenarioPlan
    place: CrowdPlace
    topic_names: Mapping[UUID, str]
    watcher: Address
    tasks: int

    def of(self, task: int) -> ScenarioPlan:
        """Return the steps of a task: all lives of a pod are in one."""
        steps = [step for step in self.plan.steps if task_of(step.life, self.tasks) == task]
        return replace(self.plan, steps=tuple(steps))


def task_of(life: Life, tasks: int) -> int:
    """Return the task that drives a life: members of each group are in every task."""
    return zlib.crc32(f"{life.group}/{life.name}".encode()) % tasks


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
        self._context, self._tasks = spark.context, spark.count
        self._partitions = scenario.partitions_by_group()
        self._watcher = LoadWatcher(LOCAL, spark.count)
        self._share = PlanShare(
            scenario=scenario,
            plan=plan,
            place=CrowdPlace(
                bootstrap=tuple(place.bootstrap),
                versions=dict(place.versions),
                names=place.names,
                leaves=place.leaves,
            ),
            topic_names=dict(topic_names),
            watcher=self._watcher.address,
            tasks=spark.count,
        )
        self._thread = ThreadPoolExecutor(1, "spark job")
        self._job: Future[list[bytes]] | None = None
        self.parts: list[bytes] = []
        """What the tasks recorded, packed, once the records were asked for."""
        self._lost: list[str] = []
        self._stalled_ms = 0

    def __enter__(self) -> Self:
        self._watcher.__enter__()
        self._job = self._thread.submit(self._run)
        try:
            if not poll(self._is_ready, STARTS_S):
                raise DrillError(f"The tasks of the load did not start within {STARTS_S:g} s.")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._watcher.__exit__()  # a task that nobody watches ends
        if self._job is not None and not self._job.done():
            self._context.cancelAllJobs()
        self._thread.shutdown()

    def _run(self) -> list[bytes]:
        numbers = self._context.parallelize(range(self._tasks), self._tasks)
        return numbers.mapPartitions(partial(drive_share, self._share)).collect()

    def _is_ready(self) -> bool:
        self.check()
        return len(self._watcher.hosts) == self._tasks

    def begin(self, began_s: float) -> None:
        """Carry out the plan, which begins at this time of ``time.monotonic``."""
        began_ms = now_ms() + int((began_s - time.monotonic()) * 1000)
        self._watcher.tell({"began_ms": began_ms})

    def check(self) -> None:
        """Raise what went wrong in the job."""
        if self._job is not None and self._job.done():
            _result(self._job)
            raise DrillError("The load on Spark has ended before its time.")

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
        """Let all members end, and return the record of every life."""
        self._lost = self._watcher.lost()
        self._watcher.end(0, TAKES_S)
        assert self._job is not None
        poll(self._job.done, PACKS_S)
        if not self._job.done():
            raise DrillError(f"The tasks did not return their records within {PACKS_S:g} s.")
        found: list[LifeRecord] = []
        self.parts = _result(self._job)
        for part in self.parts:
            lives, stalled_ms = unpacked(part)
            found += lives
            self._stalled_ms = max(self._stalled_ms, stalled_ms)
        return found

    def stalled_ms(self) -> int:
        """Return the longest stall of a task."""
        return self._stalled_ms

    def lost(self) -> list[str]:
        """Return a sentence for each task that was lost."""
        return self._lost


def _result(job: Future[list[bytes]]) -> list[bytes]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return job.result()
    except (PySparkException, Py4JError) as error:
        why = str(error).strip().splitlines()[0][:300]
        raise DrillError(f"The load on Spark failed: {why}") from None


# --- in a task


def drive_share(share: PlanShare, numbers: Iterable[int]) -> Iterator[bytes]:
    """Drive the members of a task; return what they recorded, packed."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        return  # the first attempt was lost, and its members' histories with it
    gc_tuning.freeze_heap()
    for number in numbers:
        yield from _driven(share, number)


def _driven(share: PlanShare, number: int) -> Iterator[bytes]:
    plan = share.of(number)
    with (
        Watched(share.watcher, number) as watched,
        PlannedCrowd(share.scenario, plan, share.place, share.topic_names, number) as crowd,
    ):
        began_ms = _told(watched, STARTS_S)["began_ms"]
        crowd.begin(time.monotonic() + (began_ms - now_ms()) / 1000)
        while watched.heard(TELL_S) is None:
            crowd.check()
            watched.tell(crowd.shares(), crowd.counts())
        watched.tell(crowd.shares(), crowd.counts())
        stalled_ms, lives = crowd.stalled_ms(), crowd.records()
        watched.has_taken()
    for at in range(0, len(lives), LIVES_EACH):
        yield packed(lives[at : at + LIVES_EACH], stalled_ms)


def _told(watched: Watched, within_s: float) -> dict[str, Any]:
    message = watched.heard(within_s)
    if message is None:
        raise WatchError("Nobody said when the plan begins.")
    return message


def packed(lives: Sequence[LifeRecord], stalled_ms: int) -> bytes:
    """Pack lives: their histories are long and say the same thing often."""
    return zlib.compress(pickle.dumps((list(lives), stalled_ms)), 1)


def unpacked(data: bytes) -> tuple[list[LifeRecord], int]:
    """Return what :func:`packed` was given."""
    part: tuple[list[LifeRecord], int] = pickle.loads(zlib.decompress(data))
    return part
