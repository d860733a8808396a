"""Dispatches a coordinator's tasks to assignor workers, and handles the loss of a worker.

A group stays with the worker that caches it, so that only its changes are sent. Groups with long
runs do not use the last worker, so that short runs always find a worker that is soon free.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.tasks import Tasks
from actors.telemetry.metrics import BackgroundMetrics
from actors.workers.task_frames import TASK_FORMAT, read_answer, task_parts
from protocol.assignors.registry import BUILT_IN
from protocol.groups.effects import (
    AssignmentFailed,
    CancelAssignment,
    ComputeAssignment,
    RegexesResolved,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.workers.task_frames import RunTiming
    from protocol.groups.effects import ResolveRegexes, WorkerTask

    Work = ComputeAssignment | ResolveRegexes
    Answer = Any

_log = logging.getLogger("rollcall.background")

LONG_RUN_MS: Final = 50.0
"""A group whose last run took longer does not use the last worker."""

ASK_AGAIN_S: Final = 0.2
UPGRADED_S: Final = 5.0
"""How often a worker of another version is asked whether it has been replaced."""

PATIENCE_S: Final = 10.0
"""Added to the workers' own time limit; after that the worker is considered dead."""

REMEMBERED_MAX: Final = 4_096


class Workers(Protocol):
    """The worker actors, by number; ``here`` is our Ray node."""

    @property
    def here(self) -> str:
        """This process's Ray node; empty: unknown."""

    async def ask(self, worker: int, method: str, *arguments: object, wait_s: float | None) -> Any:
        """Call a method of a worker; raises if it is dead or does not answer in time."""

    async def tell(self, worker: int, method: str, *arguments: object) -> None:
        """Call a method of a worker without waiting for its result; calls may be reordered."""


def load_assignors() -> None:
    """Load the assignors: this takes seconds, during which a leader would lose its lease."""
    from protocol.assignors.warm_up import warm_up

    warm_up()


def _no_context(_group_id: str, _run: int) -> str:
    return ""


class NoWorkers:
    """No workers: every run is done in place."""

    here = ""

    async def ask(self, *_: object, **__: object) -> Any:
        """Raise ConnectionError."""
        raise ConnectionError("there are no assignor workers")

    async def tell(self, *_: object) -> None:
        """Do nothing."""


@dataclass(slots=True)
class _Worker:
    number: int
    is_up: bool = True
    is_near: bool = False
    reads_tasks: bool = True
    under_way: int = 0
    long_under_way: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherSettings:
    """The coordinator's name, the number of workers, and the time limit of a run."""

    name: str
    workers: int
    time_limit_ms: int = 30_000


class WorkerDispatcher:
    """Sends tasks to workers and returns their answers."""

    def __init__(
        self,
        setting: DispatcherSettings,
        workers: Workers,
        answered: Callable[[int, Answer], None],
        run_context: Callable[[str, int], str] = _no_context,
    ) -> None:
        """Send tasks to ``workers``; ``answered(partition, event)`` gets the answers.

        ``run_context`` returns the trace context of a group's run.
        """
        self._run_context = run_context
        self.metrics = BackgroundMetrics(setting.workers)
        self._name = setting.name
        self._here = workers.here
        self._ways = workers
        self._workers = [_Worker(number) for number in range(setting.workers)]
        self._answered = answered
        self._wait_s = setting.time_limit_ms / 1000 + PATIENCE_S
        self._home: dict[str, int] = {}
        self._run_ms: dict[str, float] = {}
        self._tasks = Tasks(_log)
        self._numbers = count(time.time_ns())  # higher than before a restart
        self._is_alone = False
        self._in_place_ready: asyncio.Future[None] | None = None
        self._has_looked = not workers.here

    def submit(self, partition: int, task: WorkerTask) -> None:
        """Run a task; its answer always comes, later."""
        if isinstance(task, CancelAssignment):
            home = self._home.get(task.group_id)
            if home is not None and self._workers[home].is_up:
                self._tasks.spawn(self._ways.tell(home, "cancel", self._name, task.group_id))
            return
        if not self._has_looked:
            self._has_looked = True
            for worker in self._workers:
                self._tasks.spawn(self._look(worker))
        self._tasks.spawn(self._run(partition, task))

    def prepare_in_place(self) -> asyncio.Future[None]:
        """Load the assignors in a thread, for runs in place."""
        if self._in_place_ready is None:
            self._in_place_ready = asyncio.ensure_future(asyncio.to_thread(load_assignors))
        return self._in_place_ready

    def close(self) -> None:
        """Cancel all tasks."""
        self._tasks.cancel()

    async def _run(self, partition: int, task: Work) -> None:
        worker = self._choose(task)
        if worker is None:
            if not self._is_alone:
                self._is_alone = True
                _log.warning("no assignor worker is alive: assignments are computed in place")
            await asyncio.shield(self.prepare_in_place())
            worker = self._choose(task)
        if worker is None:
            self._answered(partition, _refusal(task, "no assignor worker is alive", no_worker=True))
            return
        is_long = self._is_long(task)
        worker.under_way += 1
        worker.long_under_way += is_long
        try:
            answer, timing = await self._ask(worker.number, task)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._lost(worker, error)
            answer = _refusal(task, f"assignor worker {worker.number} was lost", retriable=True)
        else:
            self._measured(task, answer, timing)
        finally:
            worker.under_way -= 1
            worker.long_under_way -= is_long
        self._answered(partition, answer)

    async def _ask(self, worker: int, task: Work) -> tuple[Answer, RunTiming]:
        """Send a task in parts; the event loop polls its sockets between two parts."""
        number, place, last = next(self._numbers), 0, b""
        context = ""
        if isinstance(task, ComputeAssignment):
            context = self._run_context(task.group_id, task.run)
        for packed in task_parts(task, context):
            if last:
                await self._ways.tell(
                    worker, "part", self._name, task.group_id, number, place, last
                )
                place += 1
                await asyncio.sleep(0)
            last = packed
        run = asyncio.ensure_future(
            self._ways.ask(
                worker, "run", self._name, task.group_id, number, place, last, wait_s=None
            )
        )
        try:
            while not (await asyncio.wait({run}, timeout=self._wait_s))[0]:
                await self._ways.ask(
                    worker, "pid", wait_s=PATIENCE_S
                )  # raises if it is dead; it may just be busy
            return read_answer(await run)
        finally:
            run.cancel()

    def _choose(self, task: Work) -> _Worker | None:
        """Prefer the worker that caches the group, and workers on our own Ray node."""
        alive = [worker for worker in self._workers if worker.is_up and worker.reads_tasks]
        if not alive:
            return None
        group_id, is_long = task.group_id, self._is_long(task)
        near = [worker for worker in alive if worker.is_near] or alive
        fit = near[:-1] if is_long and len(near) > 1 else near
        home = next((each for each in fit if each.number == self._home.get(group_id)), None)
        if home is None or (not is_long and home.long_under_way):
            home = min(reversed(fit), key=lambda each: (each.long_under_way, each.under_way))
        self._home[group_id] = home.number
        if len(self._home) > REMEMBERED_MAX:
            del self._home[next(iter(self._home))]
        return home

    def _is_long(self, task: Work) -> bool:
        """Whether a run may take long: the last one did, or its assignor is a custom one."""
        if isinstance(task, ComputeAssignment) and task.assignor not in BUILT_IN:
            return True
        return self._run_ms.get(task.group_id, 0.0) > LONG_RUN_MS

    def _measured(self, task: Work, answer: Answer, timing: RunTiming) -> None:
        if isinstance(answer, AssignmentFailed) and answer.retriable:
            return
        self.metrics.ran(timing.queue_ms, timing.processing_ms)
        if isinstance(task, ComputeAssignment):
            if len(self._run_ms) > REMEMBERED_MAX:
                del self._run_ms[next(iter(self._run_ms))]
            if timing.processing_ms > LONG_RUN_MS:
                self._run_ms[task.group_id] = timing.processing_ms
            else:
                self._run_ms.pop(task.group_id, None)

    def _lost(self, worker: _Worker, error: Exception) -> None:
        if worker.is_up:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            _log.warning("assignor worker %d was lost: %s", worker.number, reason)
            worker.is_up = False
            self._tasks.spawn(self._await_return(worker))

    async def _await_return(self, worker: _Worker) -> None:
        while True:
            await asyncio.sleep(ASK_AGAIN_S)
            if not await self._look(worker):
                continue
            worker.is_up = True
            self._is_alone = False
            _log.info("assignor worker %d is back", worker.number)
            return

    async def _look(self, worker: _Worker) -> bool:
        """Ask a worker for its Ray node and its version; False if it does not answer."""
        try:
            about = await self._ways.ask(worker.number, "about", wait_s=PATIENCE_S)
        except asyncio.CancelledError:
            raise
        except Exception:
            return False
        worker.is_near = bool(self._here) and about["ray_node"] == self._here
        is_readable = about["task_format"] == TASK_FORMAT
        if worker.reads_tasks and not is_readable:
            _log.warning("assignor worker %d reads tasks of another version", worker.number)
            self._tasks.spawn(self._await_upgrade(worker))
        worker.reads_tasks = is_readable
        return True

    async def _await_upgrade(self, worker: _Worker) -> None:
        while not worker.reads_tasks:
            await asyncio.sleep(UPGRADED_S)
            await self._look(worker)


def _refusal(task: Work, reason: str, *, retriable: bool = False, no_worker: bool = False) -> Any:
    if isinstance(task, ComputeAssignment):
        return AssignmentFailed(
            group_id=task.group_id,
            run=task.run,
            reason=reason,
            retriable=retriable,
            no_worker=no_worker,
        )
    return RegexesResolved(group_id=task.group_id, version=task.version, topics=None)
