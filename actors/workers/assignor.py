"""An assignor worker: a process that computes assignments, so that no event loop is blocked.

``group.coordinator.background.threads`` is the number of workers on each Ray node. A worker runs
one task at a time, in a thread; its event loop accepts new tasks meanwhile, schedules coordinators
and groups fairly, and limits the time: if a run takes too long (a custom assignor may hang), the
worker reports a failure and restarts. If the run holds the interpreter's lock, so that no report
is possible, the process ends as well.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from actors.logs.file import log_to_file
from actors.logs.line_format import TEXT
from actors.priority import lower_priority
from actors.tasks import Tasks
from actors.workers.fair_queue import FairQueue
from actors.workers.task_frames import (
    TASK_FORMAT,
    RunTiming,
    pack_answer,
    read_context,
    read_task,
)
from protocol.assignors.registry import BUILT_IN
from protocol.groups.effects import AssignmentFailed, ComputeAssignment, RegexesResolved
from protocol.reasons import reason as reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from actors.telemetry.compute_traces import ComputeTraces
    from protocol.assignors.executor import Executor

_log = logging.getLogger("rollcall.assignor")

FAREWELL_S: Final = 0.5
"""How long the last answers may take to be sent before the process ends."""

PARTS_S: Final = 10.0
"""How long to wait for earlier parts of a task after its last part has arrived."""

UNTRACED_MAX: Final = 100
"""Runs that wait to be told of; more of them are not."""

GRACE_S: Final = 5.0
"""After the time limit: how long until faulthandler ends a blocked process."""


@dataclass(slots=True, eq=False)
class _PartialTask:
    """The parts of a task received so far, by index; a later run has a higher number."""

    run: int
    parts: dict[int, bytes] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True, eq=False)
class _QueuedTask:
    parts: Sequence[bytes]
    asked_at: float
    answer: asyncio.Future[bytes]


class AssignorWorker:
    """One worker; ``time_limit_ms`` is the longest that a run may take.

    ``log_path`` is its log file, if any, with lines in ``log_format``; ``niceness`` lowers its CPU
    priority.
    """

    def __init__(
        self,
        time_limit_ms: int = 30_000,
        log_path: Path | None = None,
        niceness: int = 0,
        log_format: str = TEXT,
    ) -> None:
        from actors.skip_hypothesis import skip_hypothesis

        skip_hypothesis()
        lower_priority(niceness)
        if log_path is not None:
            log_to_file(log_path, log_format)
        self._time_limit_s = time_limit_ms / 1000
        self._queue: FairQueue[_QueuedTask] = FairQueue()
        self._thread = ThreadPoolExecutor(1, "assignor")
        self._executor: Executor | None = None
        self._parts: dict[tuple[str, str], _PartialTask] = {}
        self._is_running = False
        self._runs = 0
        self._busy_s = 0.0
        self._began_at = time.perf_counter()
        self._tasks = Tasks(_log)
        self._traces: ComputeTraces | None = None
        self._tracing = ThreadPoolExecutor(1, "traces")
        self._untraced = 0

    async def pid(self) -> int:
        """Return the process id."""
        return os.getpid()

    async def about(self) -> dict[str, Any]:
        """Return the Ray node that this worker is on, and the format of tasks that it reads."""
        from actors.cluster.ray_calls import own_node_id

        return {"ray_node": own_node_id(), "task_format": TASK_FORMAT}

    async def stats(self) -> dict[str, Any]:
        """Return what ``rollcall status`` shows of a worker."""
        up_s = time.perf_counter() - self._began_at
        return {
            "pid": os.getpid(),
            "state": "Busy" if self._is_running else "Idle",
            "runs": self._runs,
            "waiting": len(self._queue),
            "idle_ratio": round(max(1 - self._busy_s / up_s, 0.0), 4) if up_s else 1.0,
        }

    async def warm_up(self) -> None:
        """Load and compile what runs need, before the first one."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._prepare)

    async def part(
        self, coordinator: str, group_id: str, run: int, place: int, packed: bytes
    ) -> None:
        """Store a part of a task; :meth:`run` has the last one. Ray may reorder calls."""
        partial = self._partial_task(coordinator, group_id, run)
        if partial is not None:
            partial.parts[place] = packed
            partial.changed.set()

    async def run(
        self, coordinator: str, group_id: str, run: int, place: int, packed: bytes
    ) -> bytes:
        """Run a task whose last part is ``packed``, after ``place`` earlier parts."""
        partial = self._partial_task(coordinator, group_id, run)
        if partial is None:
            raise ValueError("a newer task for the group has arrived")
        partial.parts[place] = packed
        async with asyncio.timeout(PARTS_S):
            while len(partial.parts) <= place:
                partial.changed.clear()
                await partial.changed.wait()
        if self._parts.get((coordinator, group_id)) is partial:
            del self._parts[coordinator, group_id]
        parts = [partial.parts[number] for number in range(place + 1)]
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        waiting = _QueuedTask(parts, time.perf_counter(), answer)
        self._queue.push(coordinator, group_id, waiting)
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._serve())
        return await answer

    async def cancel(self, coordinator: str, group_id: str) -> None:
        """Cancel a group's waiting tasks: the answers are no longer needed."""
        self._parts.pop((coordinator, group_id), None)
        for waiting in self._queue.discard(coordinator, group_id):
            if not waiting.answer.done():
                waiting.answer.set_result(_failed_answer(waiting.parts, "it was cancelled"))

    def _partial_task(self, coordinator: str, group_id: str, run: int) -> _PartialTask | None:
        """Return the parts of a run, which replaces earlier runs; None if a later run exists."""
        found = self._parts.get((coordinator, group_id))
        if found is None or found.run < run:
            found = self._parts[coordinator, group_id] = _PartialTask(run)
        return found if found.run == run else None

    async def _serve(self) -> None:
        while (found := self._queue.pop()) is not None:
            coordinator, group_id, waiting = found
            began_at = time.perf_counter()
            await self._serve_one(waiting, began_at)
            used_s = time.perf_counter() - began_at
            self._busy_s += used_s
            self._runs += 1
            self._queue.charge(coordinator, group_id, used_s * 1000)
        self._is_running = False

    async def _serve_one(self, waiting: _QueuedTask, began_at: float) -> None:
        loop = asyncio.get_running_loop()
        queue_ms = (began_at - waiting.asked_at) * 1000
        try:
            if self._executor is None:
                await self.warm_up()  # not counted, as it may take long
            work = loop.run_in_executor(self._thread, self._work, waiting.parts, queue_ms)
            packed = await asyncio.wait_for(asyncio.shield(work), self._time_limit_s)
        except TimeoutError:
            reason = f"it took more than {self._time_limit_s:g} s"
            packed = _failed_answer(waiting.parts, reason, queue_ms, self._time_limit_s * 1000)
            _log.error("a run took more than %g s: the worker restarts", self._time_limit_s)
            loop.call_later(FAREWELL_S, os._exit, 1)
            if not waiting.answer.done():
                waiting.answer.set_result(packed)
            await asyncio.sleep(FAREWELL_S + 1)  # start no other run
        except Exception as error:
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
            return
        if not waiting.answer.done():
            waiting.answer.set_result(packed)

    def _prepare(self) -> Executor:
        if self._executor is None:
            from protocol.assignors.executor import Executor
            from protocol.assignors.warm_up import warm_up

            warm_up()
            self._executor = Executor(time.perf_counter)
        return self._executor

    def _work(self, parts: Sequence[bytes], queue_ms: float) -> bytes:
        began_at = time.perf_counter()
        executor = self._prepare()
        task = read_task(parts)
        began_ns = time.time_ns()
        with _watched(self._time_limit_s + GRACE_S):
            try:
                answer = executor.run(task)
            except (SystemExit, KeyboardInterrupt) as error:  # they would end the event loop
                raise RuntimeError(f"a run ended with {type(error).__name__}") from error
        packed = pack_answer(answer, RunTiming(queue_ms, (time.perf_counter() - began_at) * 1000))
        if isinstance(task, ComputeAssignment) and (context := read_context(parts)):
            self._trace_aside(context, task, (began_ns, time.time_ns()))
        return packed

    def _trace_aside(
        self, context: str, task: ComputeAssignment, times_ns: tuple[int, int]
    ) -> None:
        """Tell of a run in another thread: no answer waits until OpenTelemetry is loaded."""
        if self._untraced < UNTRACED_MAX:
            self._untraced += 1
            self._tracing.submit(self._trace, context, task, times_ns)

    def _trace(self, context: str, task: ComputeAssignment, times_ns: tuple[int, int]) -> None:
        """Tell of a run; the coordinator sends a context only if it exports traces itself."""
        try:
            if self._traces is None:
                from actors.telemetry.compute_traces import ComputeTraces

                self._traces = ComputeTraces({"service.instance.id": f"worker-{os.getpid()}"})
            told: dict[str, str | int] = {
                "messaging.system": "kafka",
                "messaging.consumer.group.name": task.group_id,
                "rollcall.assignor.name": task.assignor,
                "process.pid": os.getpid(),
            }
            self._traces.tell(context, times_ns, told)
        except Exception as error:
            _log.warning("a run cannot be traced: %s", reason_of(error))
        finally:
            self._untraced -= 1


def _failed_answer(
    parts: Sequence[bytes], reason: str, queue_ms: float = 0.0, processing_ms: float = 0.0
) -> bytes:
    """Return the answer for a failed task; it is retried unless the assignor is a custom one."""
    task = read_task(parts)
    answer: Any
    if isinstance(task, ComputeAssignment):
        answer = AssignmentFailed(
            group_id=task.group_id,
            run=task.run,
            reason=f"the assignor {task.assignor} did not end: {reason}",
            retriable=task.assignor in BUILT_IN,
        )
    else:
        answer = RegexesResolved(group_id=task.group_id, version=task.version, topics=None)
    return pack_answer(answer, RunTiming(queue_ms, processing_ms))


@contextmanager
def _watched(time_limit_s: float) -> Iterator[None]:
    """End the process if the block takes longer, even if the interpreter is blocked."""
    faulthandler.dump_traceback_later(time_limit_s, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
