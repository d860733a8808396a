"""Assignor workers: tasks are done late, twice, never or by a successor.

The executor is the one that the worker actors run. A worker that dies forgets every group. Its open
tasks are answered as the coordinator's side does when it loses a worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from failover.simulation.event_log import Violation
from protocol.groups.effects import (
    AssignmentComputed,
    AssignmentFailed,
    CancelAssignment,
    ComputeAssignment,
    RegexesResolved,
)
from protocol.groups.shard import GroupShard

if TYPE_CHECKING:
    from failover.host import Host
    from failover.simulation.nodes.process import Process
    from failover.simulation.world import World
    from protocol.assignors.executor import Executor
    from protocol.groups.effects import ResolveRegexes, WorkerTask
    from protocol.groups.modern.runtime import AssignorRun, ModernGroupRuntime

Answer: TypeAlias = AssignmentComputed | AssignmentFailed | RegexesResolved

WORKERS: Final = 2
SLOW_MS: Final = (500, 150_000)
"""The longest run is abandoned before it answers."""

QUICK_MS: Final = 20
AGAIN_MS: Final = (5, 60_000)
"""How long after its first answer a run is answered a second time."""


@dataclass(slots=True)
class SimulatedWorker:
    """One worker: ``executors`` by coordinator; ``life`` counts its processes."""

    is_up: bool = True
    life: int = 0
    executors: dict[int, Executor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignorTask:
    """A task in transit: from a life of a coordinator, to a life of a worker."""

    process: Process
    process_life: int
    partition: int
    task: ComputeAssignment | ResolveRegexes
    worker: SimulatedWorker
    worker_life: int


class SimulatedWorkers:
    """All workers of a cluster. ``failed`` are the groups whose assignor was made to fail."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.random("workers")
        self._workers = [SimulatedWorker() for _ in range(WORKERS)]
        self._homes: dict[tuple[int, str], SimulatedWorker] = {}
        self._before: dict[tuple[int, str], tuple[AssignorTask, Any]] = {}
        self.failed: set[str] = set()

    def submit(self, process: Process, partition: int, task: WorkerTask) -> None:
        """Take a task of a coordinator; its answer returns as an event."""
        if isinstance(task, CancelAssignment):
            return  # it always comes too late: the answer must be ignored
        alive = [worker for worker in self._workers if worker.is_up]
        if not alive:
            self._world.after(1, self._answer, process, process.life, partition, _nobody(task))
            return
        home = self._homes.get((process.node_id, task.group_id))
        if home is None or not home.is_up or self._rng.random() < 0.1:
            home = self._rng.choice(alive)
        self._homes[process.node_id, task.group_id] = home
        ask = AssignorTask(process, process.life, partition, task, home, home.life)
        self._world.after(self._delay(), self._work, ask)
        before = self._before.pop((process.node_id, task.group_id), None)
        if before is not None:
            self._world.after(1, self._say, *before)

    def kill(self, gone_ms: int) -> None:
        """End a worker for a while, or both."""
        doomed = self._workers if self._rng.random() < 0.4 else [self._rng.choice(self._workers)]
        self._world.fault("worker dies", f"{len(doomed)} of {WORKERS}, for {gone_ms} ms")
        for worker in doomed:
            worker.life += 1
            worker.is_up = False
            worker.executors.clear()
            self._world.after(gone_ms, self._start, worker, worker.life)

    def restore(self) -> None:
        """Restart all dead workers."""
        for worker in self._workers:
            worker.is_up = True

    def _start(self, worker: SimulatedWorker, life: int) -> None:
        if worker.life == life:
            worker.is_up = True

    def _delay(self) -> int:
        rng, faults = self._rng, self._world.settings.group_faults
        if self._world.faulty and rng.random() < faults.slow_run:
            low, high = SLOW_MS
            return int(low * (high / low) ** rng.random())
        return 1 + int(rng.random() * QUICK_MS)

    def _work(self, ask: AssignorTask) -> None:
        """Do a task when it becomes due; tasks may overtake each other."""
        rng, faults, task = self._rng, self._world.settings.group_faults, ask.task
        if ask.worker.life != ask.worker_life:
            self._say(ask, _lost(task))
            return
        if isinstance(task, ComputeAssignment) and self._world.faulty:
            if rng.random() < faults.lost_run:
                self._world.fault("run lost", task.group_id)
                return
            if rng.random() < faults.failed_run:
                self._world.fault("run fails", task.group_id)
                self.failed.add(task.group_id)
                self._say(ask, _failure(task, "it was made to fail"))
                return
        answer = self._executor(ask).run(task)
        self._say(ask, answer)
        if self._world.faulty and rng.random() < faults.twice:
            self._world.fault("run answered twice", task.group_id)
            if rng.random() < 0.5:  # while the next one is in progress
                self._before[ask.process.node_id, task.group_id] = ask, answer
                return
            low, high = AGAIN_MS
            self._world.after(int(low * (high / low) ** rng.random()), self._say, ask, answer)

    def _executor(self, ask: AssignorTask) -> Executor:
        executors, node_id = ask.worker.executors, ask.process.node_id
        if node_id not in executors:
            from protocol.assignors.executor import Executor  # numba: loaded only when needed

            executors[node_id] = Executor(lambda: 0.0)
        return executors[node_id]

    def _say(self, ask: AssignorTask, answer: Any) -> None:
        if self._world.tells:
            self._world.tell(
                ask.task.group_id, f"node {ask.process.node_id} is told {_line(answer)}"
            )
        self._answer(ask.process, ask.process_life, ask.partition, answer)

    def _answer(self, process: Process, life: int, partition: int, answer: Any) -> None:
        if process.life == life:
            process.event(_computed, partition, answer)


def _computed(host: Host, number: int, answer: Answer, now: int) -> None:
    """Pass an answer to its coordinator; raise Violation when it is accepted for another run."""
    live, run = _waiting(host, number, answer)
    host.computed(number, answer, now)
    if run is None or isinstance(answer, RegexesResolved) or answer.run == run.number:
        return
    after, waits_for = _waiting(host, number, answer)
    if after is live and waits_for is not run:
        raise Violation(
            f"the answer of run {answer.run} is taken for the one of run {run.number}",
            answer.group_id,
        )


def _waiting(
    host: Host, number: int, answer: Answer
) -> tuple[ModernGroupRuntime | None, AssignorRun | None]:
    """Find the group that an answer is about, and the run that the group waits for."""
    for partition in host.partitions:
        if partition.number == number and isinstance(partition.machine, GroupShard):
            live = partition.machine._context.modern_runtime.get(answer.group_id)
            return live, None if live is None else live.run
    return None, None


def _nobody(task: ComputeAssignment | ResolveRegexes) -> Any:
    if isinstance(task, ComputeAssignment):
        return _failure(task, "no assignor worker is alive", no_worker=True)
    return _unresolved(task)


def _lost(task: ComputeAssignment | ResolveRegexes) -> Any:
    if isinstance(task, ComputeAssignment):
        return _failure(task, "the worker was lost", retriable=True)
    return _unresolved(task)


def _unresolved(task: ResolveRegexes) -> RegexesResolved:
    return RegexesResolved(group_id=task.group_id, version=task.version, topics=None)


def _failure(task: ComputeAssignment, reason: str, **why: bool) -> AssignmentFailed:
    return AssignmentFailed(group_id=task.group_id, run=task.run, reason=reason, **why)


def _line(answer: Any) -> str:
    if isinstance(answer, RegexesResolved):
        return f"what expressions match: {answer.topics}"
    if isinstance(answer, AssignmentFailed):
        needs = ", it wants the whole group" if answer.needs_whole else ""
        return f"that run {answer.run} came to nothing: {answer.reason}{needs}"
    return f"the target of run {answer.run}: {len(answer.members)} members' changed"
