"""Which worker gets a task, and what if it dies."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from actors.workers.dispatcher import DispatcherSettings, WorkerDispatcher
from actors.workers.task_frames import (
    TASK_FORMAT,
    RunTiming,
    pack_answer,
    read_context,
    read_task,
)
from protocol.groups.effects import (
    AssignmentComputed,
    AssignmentFailed,
    CancelAssignment,
    ComputeAssignment,
    GroupChanges,
    RegexesResolved,
    ResolveRegexes,
)
from tests.waiting import WITHIN_S


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed here: spare the time to load the assignors."""
    monkeypatch.setattr("actors.workers.dispatcher.load_assignors", lambda: None)


class Workers:
    """Workers that answer at once, unless they are dead; ``took_ms`` is what runs are said to."""

    def __init__(self, here: str) -> None:
        self.here = here
        self.dead: set[int] = set()
        self.formats: dict[int, int] = {}
        self.took_ms: dict[str, float] = {}
        self.ran: list[tuple[str, int]] = []
        self.told: list[tuple[int, str]] = []
        self.contexts: list[str] = []
        self.asked_for_pid = 0
        self.held = asyncio.Event()
        self.held.set()
        self._parts: dict[tuple[int, str, int], list[bytes]] = {}

    async def ask(self, worker: int, method: str, *arguments: Any, wait_s: float | None) -> Any:
        if worker in self.dead:
            raise ConnectionError("the worker is dead")
        if method == "pid":
            self.asked_for_pid += 1
            return 1
        if method == "about":
            node = "far" if worker < 2 else "near"
            return {"ray_node": node, "task_format": self.formats.get(worker, TASK_FORMAT)}
        _, group_id, number, place, last = arguments
        parts = [*self._parts.pop((worker, group_id, number), ()), last]
        assert len(parts) == place + 1
        task = read_task(parts)
        self.contexts.append(read_context(parts))
        self.ran.append((group_id, worker))
        await self.held.wait()
        timing = RunTiming(1.0, self.took_ms.get(group_id, 2.0))
        if isinstance(task, ResolveRegexes):
            return pack_answer(RegexesResolved(group_id=group_id, version=1, topics={}), timing)
        answer = AssignmentComputed(group_id=group_id, run=task.run, members=[("m", b"v")])
        return pack_answer(answer, timing)

    async def tell(self, worker: int, method: str, *arguments: Any) -> None:
        self.told.append((worker, method))
        if method == "part":
            _, group_id, number, place, packed = arguments
            arrived = self._parts.setdefault((worker, group_id, number), [])
            assert len(arrived) == place
            arrived.append(packed)


class Desk:
    def __init__(
        self, count: int = 2, here: str = "", contexts: dict[tuple[str, int], str] | None = None
    ) -> None:
        self.workers = Workers(here)
        self.answers: list[tuple[int, Any]] = []
        self.dispatcher = WorkerDispatcher(
            DispatcherSettings(name="coordinator-0", workers=count),
            self.workers,
            lambda *answer: self.answers.append(answer),
            lambda group_id, run: (contexts or {}).get((group_id, run), ""),
        )

    async def done(self, task: Any, partition: int = 3) -> Any:
        before = len(self.answers)
        self.dispatcher.submit(partition, task)
        async with asyncio.timeout(WITHIN_S):
            while len(self.answers) == before:
                await asyncio.sleep(0)
        return self.answers[-1]


def run_of(group_id: str, run: int = 2) -> ComputeAssignment:
    return ComputeAssignment(
        group_id=group_id,
        run=run,
        assignor="uniform",
        base_run=None,
        changes=GroupChanges(topics=(), gone=(("a", None), ("b", "c"))),
    )


def test_a_worker_is_told_the_context_of_the_runs_trace() -> None:
    async def scenario() -> None:
        desk = Desk(contexts={("g", 2): "00-1-2-01"})
        await desk.done(run_of("g"))
        await desk.done(run_of("other"))
        assert desk.workers.contexts == ["00-1-2-01", ""]

    asyncio.run(scenario())


def test_an_answer_comes_back_to_the_partition_that_asked() -> None:
    async def scenario() -> None:
        desk = Desk()
        partition, answer = await desk.done(run_of("g"))
        assert partition == 3
        assert isinstance(answer, AssignmentComputed)
        assert list(answer.members) == [("m", b"v")]
        resolve = ResolveRegexes(group_id="g", version=1, regexes=("a",), topics=["a"])
        assert isinstance((await desk.done(resolve))[1], RegexesResolved)
        rows = desk.dispatcher.metrics.gauges()
        assert 0 <= rows["background-thread-idle-ratio-avg"] < 1
        assert rows["background-queue-time-ms-p99"] == 1.0
        assert rows["background-processing-time-ms-max"] == 2.0

    asyncio.run(scenario())


def test_a_group_stays_with_the_worker_that_holds_it() -> None:
    async def scenario() -> None:
        desk = Desk()
        for epoch in range(2, 6):
            await desk.done(run_of("g", epoch))
        assert len({worker for _, worker in desk.workers.ran}) == 1

    asyncio.run(scenario())


def test_groups_whose_runs_are_long_keep_off_the_last_worker() -> None:
    async def scenario() -> None:
        desk = Desk()
        for number in range(4):
            desk.workers.took_ms[f"huge-{number}"] = 500.0
            await desk.done(run_of(f"huge-{number}"))
        desk.workers.ran.clear()
        for number in range(4):
            await desk.done(run_of(f"huge-{number}", 3))
        assert {worker for _, worker in desk.workers.ran} == {0}
        desk.workers.held.clear()
        desk.dispatcher.submit(0, run_of("huge-0", 4))
        desk.dispatcher.submit(0, run_of("small"))
        async with asyncio.timeout(WITHIN_S):
            while len(desk.workers.ran) < 6:
                await asyncio.sleep(0)
        assert desk.workers.ran[-1] == ("small", 1)
        desk.workers.held.set()

    asyncio.run(scenario())


def test_a_run_on_a_dead_worker_may_be_tried_again_and_goes_elsewhere() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.done(run_of("g"))
        [(_, home)] = desk.workers.ran
        desk.workers.dead.add(home)
        _, answer = await desk.done(run_of("g", 3))
        assert isinstance(answer, AssignmentFailed)
        assert answer.retriable
        _, answer = await desk.done(run_of("g", 3))
        assert isinstance(answer, AssignmentComputed)
        assert desk.workers.ran[-1] == ("g", 1 - home)
        desk.dispatcher.close()

    asyncio.run(scenario())


def test_without_a_worker_the_group_is_told_so_and_with_one_again_it_is_served() -> None:
    async def scenario() -> None:
        desk = Desk(count=1)
        desk.workers.dead.add(0)
        assert (await desk.done(run_of("g")))[1].retriable
        assert (await desk.done(run_of("g")))[1].no_worker
        resolve = ResolveRegexes(group_id="g", version=1, regexes=("a",), topics=["a"])
        assert (await desk.done(resolve))[1].topics is None
        desk.workers.dead.clear()
        async with asyncio.timeout(WITHIN_S):
            while not isinstance((await desk.done(run_of("g")))[1], AssignmentComputed):
                await asyncio.sleep(0.02)
        desk.dispatcher.close()

    asyncio.run(scenario())


def test_assignors_are_loaded_beside_the_event_loop_before_they_run_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        loaded, loads = threading.Event(), []

        def load() -> None:
            loads.append(threading.current_thread())
            assert loaded.wait(WITHIN_S)

        monkeypatch.setattr("actors.workers.dispatcher.load_assignors", load)
        desk = Desk(count=0)
        desk.dispatcher.submit(3, run_of("g"))
        desk.dispatcher.submit(3, run_of("h"))
        async with asyncio.timeout(WITHIN_S):
            while not loads:
                await asyncio.sleep(0)
        assert not desk.answers
        loaded.set()
        async with asyncio.timeout(WITHIN_S):
            while len(desk.answers) < 2:
                await asyncio.sleep(0)
        assert all(answer.no_worker for _, answer in desk.answers)
        assert len(loads) == 1
        assert loads[0] is not threading.main_thread()

    asyncio.run(story())


def test_a_cancelled_run_is_left_out_where_it_waits() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.done(run_of("g"))
        desk.dispatcher.submit(3, CancelAssignment(group_id="g"))
        await asyncio.sleep(0)
        assert desk.workers.told[-1][1] == "cancel"

    asyncio.run(scenario())


def test_workers_of_the_coordinators_own_node_come_first() -> None:
    async def scenario() -> None:
        desk = Desk(count=4, here="near")
        await desk.done(run_of("first"))
        for number in range(6):
            await desk.done(run_of(f"g-{number}"))
        assert {worker for _, worker in desk.workers.ran[1:]} <= {2, 3}
        desk.workers.dead |= {2, 3}
        for _ in range(3):
            await desk.done(run_of("other"))
        assert desk.workers.ran[-1][1] < 2, "far ones are better than none"
        desk.dispatcher.close()

    asyncio.run(scenario())


def test_a_worker_of_another_version_gets_no_tasks_until_it_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.workers.dispatcher.UPGRADED_S", 0.0)

    async def scenario() -> None:
        desk = Desk(3, here="near")
        desk.workers.formats = {2: TASK_FORMAT + 1}
        desk.workers.held.clear()
        desk.dispatcher.submit(3, run_of("first"))  # by it the dispatcher begins to look
        async with asyncio.timeout(WITHIN_S):
            while desk.dispatcher._workers[2].reads_tasks:
                await asyncio.sleep(0)
        desk.workers.held.set()
        desk.workers.ran.clear()
        for number in range(4):
            await desk.done(run_of(f"g{number}"))
        assert {worker for _, worker in desk.workers.ran} <= {0, 1}
        desk.workers.formats = {}
        async with asyncio.timeout(WITHIN_S):
            while not desk.dispatcher._workers[2].reads_tasks:
                await asyncio.sleep(0)
        await desk.done(run_of("later"))
        assert desk.workers.ran[-1] == ("later", 2)
        desk.dispatcher.close()

    asyncio.run(scenario())


def test_groups_with_a_custom_assignor_keep_off_the_last_worker_from_the_start() -> None:
    async def scenario() -> None:
        desk = Desk()
        for number in range(3):
            await desk.done(replace(run_of(f"g-{number}"), assignor="own"))
        assert {worker for _, worker in desk.workers.ran} == {0}

    asyncio.run(scenario())


def test_a_worker_that_works_for_long_is_asked_whether_it_lives() -> None:
    async def scenario() -> None:
        desk = Desk(count=1)
        desk.dispatcher._wait_s = 0.01
        desk.workers.held.clear()
        desk.dispatcher.submit(3, run_of("g"))
        async with asyncio.timeout(WITHIN_S):
            while desk.workers.asked_for_pid < 3:
                await asyncio.sleep(0)
        assert not desk.answers, "it lives, so its answer is awaited"
        desk.workers.dead.add(0)
        async with asyncio.timeout(WITHIN_S):
            while not desk.answers:
                await asyncio.sleep(0.01)
        assert desk.answers[0][1].retriable
        desk.dispatcher.close()

    asyncio.run(scenario())
