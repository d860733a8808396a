"""One worker, without Ray: the parts of tasks, turns, cancelled runs."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.telemetry.run_contexts import RunContexts
from actors.telemetry.transports import FILE
from actors.workers.assignor import AssignorWorker
from actors.workers.task_frames import read_answer, task_parts
from protocol.groups.effects import (
    AssignmentComputed,
    AssignmentFailed,
    ComputeAssignment,
    GroupChanges,
    MemberRow,
)
from protocol.groups.topic_row import TopicRow
from tests.waiting import WITHIN_S

COORDINATOR = "coordinator-0"


@pytest.fixture(autouse=True)
def _with_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process, which is no worker, keep the modules that workers go without."""
    monkeypatch.setattr("actors.skip_hypothesis.skip_hypothesis", lambda: None)


def task(group_id: str, members: int = 2, partitions: int = 4) -> ComputeAssignment:
    return ComputeAssignment(
        group_id=group_id,
        run=2,
        assignor="uniform",
        base_run=None,
        changes=GroupChanges(
            topics=(TopicRow(b"t" * 16, "t", partitions),),
            subscriptions={1: frozenset({"t"})},
            members=tuple(MemberRow(f"m{number}", None, None, 1) for number in range(members)),
        ),
    )


async def ask(worker: AssignorWorker, run: int, parts: Sequence[bytes], group_id: str) -> Any:
    place = len(parts) - 1
    return read_answer(await worker.run(COORDINATOR, group_id, run, place, parts[place]))[0]


def test_the_parts_of_a_task_may_come_in_any_order() -> None:
    async def scenario() -> None:
        worker = AssignorWorker()
        parts = list(task_parts(task("g", 3_000, 4)))
        assert len(parts) > 2
        asked = asyncio.create_task(ask(worker, 7, parts, "g"))
        await asyncio.sleep(0)
        await worker.part(COORDINATOR, "g", 6, 0, b"of an earlier run")
        for place in reversed(range(len(parts) - 1)):
            await worker.part(COORDINATOR, "g", 7, place, parts[place])
        answer = await asked
        assert isinstance(answer, AssignmentComputed)
        told = [member_id for member_id, _ in answer.members]
        assert told == sorted(f"m{number}" for number in range(3_000))

    asyncio.run(scenario())


def test_a_run_with_a_context_is_a_span_of_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILE, str(tmp_path / "traces.jsonl"))
    context = RunContexts().begin("g", 2)

    async def scenario() -> None:
        worker = AssignorWorker()
        await ask(worker, 7, list(task_parts(task("g"), context)), "g")
        await ask(worker, 8, list(task_parts(task("untraced"))), "untraced")
        worker._tracing.shutdown()
        assert worker._traces is not None
        worker._traces.close(WITHIN_S)

    asyncio.run(scenario())
    (line,) = (tmp_path / f"traces-{os.getpid()}.jsonl").read_text().splitlines()
    (span,) = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    _, trace_id, parent_id, _ = context.split("-")
    assert span["name"] == "compute"
    assert (span["traceId"], span["parentSpanId"]) == (trace_id, parent_id)


def test_small_groups_do_not_wait_behind_all_runs_of_a_huge_one() -> None:
    async def scenario() -> None:
        worker = AssignorWorker()
        await worker.warm_up()
        order: list[str] = []

        async def one(name: str, run: int, size: tuple[int, int]) -> None:
            parts = list(task_parts(task(name, *size)))
            for place, part in enumerate(parts[:-1]):
                await worker.part(COORDINATOR, name, run, place, part)
            answer = await ask(worker, run, parts, name)
            assert isinstance(answer, AssignmentComputed)
            order.append(name)

        huge = [asyncio.create_task(one("huge", run, (5_000, 50_000))) for run in range(4)]
        while not order:
            await asyncio.sleep(0.001)
        small = [asyncio.create_task(one(f"small-{n}", 1, (2, 4))) for n in range(10)]
        await asyncio.gather(*huge, *small)
        assert order.count("huge") == 4
        assert order[-1] == "huge"
        assert order.index("small-9") < 13 - 1, "at most the run under way was before them"
        stats = await worker.stats()
        assert (stats["runs"], stats["waiting"], stats["state"]) == (14, 0, "Idle")

    asyncio.run(scenario())


def test_what_is_cancelled_before_its_turn_is_answered_for_and_not_run() -> None:
    async def scenario() -> None:
        worker = AssignorWorker()
        first, second = (list(task_parts(task(name))) for name in ("first", "second"))
        asked = []
        for name, parts in (("first", first), ("second", second)):
            for place, part in enumerate(parts[:-1]):
                await worker.part(COORDINATOR, name, 1, place, part)
            asked.append(asyncio.create_task(ask(worker, 1, parts, name)))
            await asyncio.sleep(0)
        await worker.cancel(COORDINATOR, "second")
        answers = await asyncio.gather(*asked)
        assert isinstance(answers[0], AssignmentComputed)
        assert isinstance(answers[1], AssignmentFailed)
        assert (await worker.stats())["runs"] == 1

    asyncio.run(scenario())
