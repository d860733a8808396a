"""One task of Spark that drives its share of a plan, and packs what its members recorded.

A task that is lost is not driven again: its watcher knows it already, so it returns nothing.
"""

from __future__ import annotations

import pickle
import time
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.coordinator import gc_tuning
from bench.load.driver import now_ms
from bench.load.watching import Watched, WatchError
from bench.rehearsals.crowd import PlannedCrowd
from bench.scenarios.history import rows_of_lives
from bench.scenarios.plan import Leave, Start, Vanish

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from bench.client.cluster_client import Address
    from bench.histories.schema import HistoryRow
    from bench.scenarios.members import ClusterNames
    from bench.scenarios.plan import Life, ScenarioPlan
    from bench.scenarios.record import LifeRecord
    from bench.scenarios.scenario import Scenario

STARTS_S: Final = 120.0
"""How long the tasks may take until all wait for the plan to begin."""
TELL_S: Final = 5.0
"""How often a task looks at all its members and tells what they hold."""
LIVES_EACH: Final = 500
"""Lives in one packed part."""


@dataclass(slots=True, kw_only=True)
class CrowdPlace:
    """What members must know of their cluster: :class:`bench.rehearsals.stages.CrowdCluster`."""

    bootstrap: tuple[Address, ...]
    versions: Mapping[int, int]
    names: ClusterNames
    leaves: bool
    command_config: Path | None


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

    def members(self, task: int, at_ms: int) -> int:
        """Return how many members of a task are due to be there, so long after the begin."""
        due = [step.action for step in self.of(task).steps if step.due_ms <= at_ms]
        ends = sum(isinstance(action, Leave | Vanish) for action in due)
        return sum(isinstance(action, Start) for action in due) - ends


class TaskPart(NamedTuple):
    """Some of the lives that a task drove, and its longest stall."""

    task: int
    lives: Sequence[LifeRecord]
    stalled_ms: int


def task_of(life: Life, tasks: int) -> int:
    """Return the task that drives a life: members of each group are in every task."""
    return zlib.crc32(f"{life.group}/{life.name}".encode()) % tasks


def drive_share(share: PlanShare, numbers: Iterable[int]) -> Iterator[bytes]:
    """Drive the members of a task; return what they recorded, packed: at least one part."""
    gc_tuning.freeze_heap()
    for number in numbers:
        yield from _driven(share, number)


def _driven(share: PlanShare, number: int) -> Iterator[bytes]:
    plan = share.of(number)
    with (
        Watched(share.watcher, number) as watched,
        PlannedCrowd(share.scenario, plan, share.place, share.topic_names, number) as crowd,
    ):
        try:
            began_ms = _told(watched, STARTS_S)["began_ms"]
        except WatchError:
            return  # the task was there before and was lost, and its members' histories with it
        try:
            stalled_ms, lives = _lived(crowd, watched, began_ms)
        except Exception as error:
            watched.fails(f"{type(error).__name__}: {error}")
            raise
        watched.has_taken()
    for at in range(0, max(len(lives), 1), LIVES_EACH):
        yield packed(TaskPart(number, lives[at : at + LIVES_EACH], stalled_ms))


def _lived(crowd: PlannedCrowd, watched: Watched, began_ms: int) -> tuple[int, list[LifeRecord]]:
    """Let the members live until the watcher ends it; return the longest stall and every life."""
    crowd.begin(time.monotonic() + (began_ms - now_ms()) / 1000)
    while watched.heard(TELL_S) is None:
        crowd.check()
        watched.tell(crowd.shares(), crowd.counts())
    watched.tell(crowd.shares(), crowd.counts())
    return crowd.stalled_ms(), crowd.records()


def _told(watched: Watched, within_s: float) -> dict[str, Any]:
    message = watched.heard(within_s)
    if message is None:
        raise WatchError("Nobody said when the plan begins.")
    return message


def packed(part: TaskPart) -> bytes:
    """Pack lives: their histories are long and say the same thing often."""
    return zlib.compress(pickle.dumps(part), 1)


def unpacked(data: bytes) -> TaskPart:
    """Return what :func:`packed` was given."""
    part: TaskPart = pickle.loads(zlib.decompress(data))
    return part


def rows_of_part(scenario: Scenario, data: bytes) -> Iterator[HistoryRow]:
    """Return the rows of a history that a packed part holds."""
    return rows_of_lives(scenario, unpacked(data).lives)
