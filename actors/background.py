"""A coordinator's way to the assignor workers: which worker gets a task, and what if it dies.

A group stays with the worker that holds it, so that only its changes are sent. Groups whose runs
are long keep off the last worker: however many there are, short runs find one that is soon free.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.task_frames import read_answer, task_parts
from protocol.groups.effects import (
    AssignmentFailed,
    CancelAssignment,
    ComputeAssignment,
    RegexesResolved,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.task_frames import Timing
    from protocol.groups.effects import ResolveRegexes, Task

    Work = ComputeAssignment | ResolveRegexes
    Answer = Any

_log = logging.getLogger("rollcall.background")

LONG_RUN_MS: Final = 50.0
"""A group whose last run took longer is kept off the last worker."""

ASK_AGAIN_S: Final = 0.2
PATIENCE_S: Final = 10.0
"""Beyond the workers' own time limit: then the worker is taken for dead."""

REMEMBERED_MAX: Final = 4_096


class Workers(Protocol):
    """The worker actors, by number."""

    async def ask(self, worker: int, method: str, *arguments: object, wait_s: float) -> Any:
        """Call a method of a worker; raises when it is dead or does not answer."""

    async def tell(self, worker: int, method: str, *arguments: object) -> None:
        """Call a method of a worker without waiting for its end; calls arrive in order."""


class NoWorkers:
    """Nobody there: every run is done in place."""

    async def ask(self, worker: int, method: str, *arguments: object, wait_s: float) -> Any:  # noqa: ARG002
        """Fail, as there is nobody."""
        raise ConnectionError("there are no assignor workers")

    async def tell(self, worker: int, method: str, *arguments: object) -> None:
        """Do nothing."""


@dataclass(slots=True)
class _Worker:
    number: int
    is_up: bool = True
    under_way: int = 0
    long_under_way: int = 0


@dataclass(slots=True)
class Samples:
    """The last so many measurements, for percentiles."""

    values: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED_MAX))

    def percentiles(self) -> dict[str, float]:
        """Return p50, p95, p99, p999 and max, 0 where nothing was measured."""
        ordered = sorted(self.values) or [0.0]
        last = len(ordered) - 1
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
        return {name: ordered[round(share * last)] for name, share in shares.items()}


class Background:
    """Hands tasks to workers and brings their answers back."""

    def __init__(
        self,
        name: str,
        workers: Workers,
        count: int,
        answered: Callable[[int, Answer], None],
        time_limit_ms: int = 30_000,
    ) -> None:
        """Work for the coordinator ``name``; ``answered(partition, event)`` takes the answers."""
        self.queue_ms = Samples()
        self.processing_ms = Samples()
        self._name = name
        self._ways = workers
        self._workers = [_Worker(number) for number in range(count)]
        self._answered = answered
        self._wait_s = time_limit_ms / 1000 + PATIENCE_S
        self._home: dict[str, int] = {}
        self._run_ms: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, partition: int, task: Task) -> None:
        """Have a task done; its answer comes later, and always."""
        if isinstance(task, CancelAssignment):
            home = self._home.get(task.group_id)
            if home is not None and self._workers[home].is_up:
                self._spawn(self._ways.tell(home, "cancel", self._name, task.group_id))
            return
        self._spawn(self._run(partition, task))

    def close(self) -> None:
        """Forget what is under way."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, partition: int, task: Work) -> None:
        worker = self._choose(task.group_id)
        if worker is None:
            self._answered(partition, _refusal(task, "no assignor worker is alive", no_worker=True))
            return
        is_long = self._is_long(task.group_id)
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
            self._measured(task, timing)
        finally:
            worker.under_way -= 1
            worker.long_under_way -= is_long
        self._answered(partition, answer)

    async def _ask(self, worker: int, task: Work) -> tuple[Answer, Timing]:
        """Send a task in parts, and look at the sockets between two of them."""
        sent, last = 0, b""
        for packed in task_parts(task):
            if last:
                await self._ways.tell(worker, "part", self._name, task.group_id, last, sent == 0)
                sent += 1
                await asyncio.sleep(0)
            last = packed
        packed = await self._ways.ask(
            worker, "run", self._name, task.group_id, last, sent, wait_s=self._wait_s
        )
        return read_answer(packed)

    def _choose(self, group_id: str) -> _Worker | None:
        alive = [worker for worker in self._workers if worker.is_up]
        if not alive:
            return None
        is_long = self._is_long(group_id)
        fit = alive[:-1] if is_long and len(alive) > 1 else alive
        home = next((each for each in fit if each.number == self._home.get(group_id)), None)
        if home is None or (not is_long and home.long_under_way):
            home = min(reversed(fit), key=lambda each: (each.long_under_way, each.under_way))
        self._home[group_id] = home.number
        if len(self._home) > REMEMBERED_MAX:
            del self._home[next(iter(self._home))]
        return home

    def _is_long(self, group_id: str) -> bool:
        return self._run_ms.get(group_id, 0.0) > LONG_RUN_MS

    def _measured(self, task: Work, timing: Timing) -> None:
        self.queue_ms.values.append(timing.queue_ms)
        self.processing_ms.values.append(timing.processing_ms)
        if isinstance(task, ComputeAssignment):
            if timing.processing_ms > LONG_RUN_MS:
                self._run_ms[task.group_id] = timing.processing_ms
            else:
                self._run_ms.pop(task.group_id, None)

    def _lost(self, worker: _Worker, error: Exception) -> None:
        if worker.is_up:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            _log.warning("assignor worker %d was lost: %s", worker.number, reason)
            worker.is_up = False
            self._spawn(self._await_return(worker))

    async def _await_return(self, worker: _Worker) -> None:
        while True:
            await asyncio.sleep(ASK_AGAIN_S)
            try:
                await self._ways.ask(worker.number, "pid", wait_s=self._wait_s)
            except asyncio.CancelledError:
                raise
            except Exception:
                continue
            worker.is_up = True
            _log.info("assignor worker %d is back", worker.number)
            return

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def metrics(background: Background, stats: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return KIP-1263's metrics of the background threads under their names."""
    shares = [1 - row["busy_s"] / row["up_s"] for row in stats if row["up_s"]]
    rows = {"background-thread-idle-ratio-avg": sum(shares) / len(shares) if shares else 1.0}
    for what, samples in (
        ("queue", background.queue_ms),
        ("processing", background.processing_ms),
    ):
        for name, value in samples.percentiles().items():
            rows[f"background-{what}-time-ms-{name}"] = value
    return rows


def _refusal(task: Work, reason: str, *, retriable: bool = False, no_worker: bool = False) -> Any:
    if isinstance(task, ComputeAssignment):
        return AssignmentFailed(
            group_id=task.group_id,
            group_epoch=task.group_epoch,
            reason=reason,
            retriable=retriable,
            no_worker=no_worker,
        )
    return RegexesResolved(group_id=task.group_id, version=task.version, topics=None)
