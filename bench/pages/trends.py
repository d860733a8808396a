"""What a group was like over time: members without an assignment, gaps, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bench.pages.document import Trends
from bench.pages.histogram import StepHistograms
from bench.pages.steps import counted, edges, mean_count, step_ms
from bench.scenarios.record import ENDS, unavailable
from failover.drills.verdict import SIGNS
from protocol.members.history import MemberHistoryKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.pages.ownership import OwnershipTimes
    from bench.pages.steps import Floats
    from bench.scenarios.record import LifeRecord, ScenarioRecord

STEPS_MAX: Final = 240
DIGITS: Final = 2

SHARES: Final = {"p50": 0.5, "p99": 0.99}

ERRORS: Final = (
    MemberHistoryKind.LOST, MemberHistoryKind.FAILED, MemberHistoryKind.RETRIED,
    MemberHistoryKind.DISCONNECTED, MemberHistoryKind.COMMIT_FAILED,
)  # fmt: skip


def trends(
    record: ScenarioRecord, lives: Sequence[LifeRecord], ownership: OwnershipTimes
) -> Trends:
    """Return a group's trends from the beginning of the run to its end."""
    duration_ms = ownership.duration_ms
    step = step_ms(duration_ms, STEPS_MAX)
    at = edges(duration_ms, step)
    running = [(each.started_ms, _ended_ms(record, each)) for each in lives]
    stopped = [stretch for each in lives for stretch in unavailable(record, each)]
    return Trends(
        step_ms=step,
        running=_rounded(mean_count(running, at + record.began_ms)),
        unavailable=_rounded(mean_count(stopped, at + record.began_ms)),
        unowned=_rounded(mean_count(ownership.unowned(), at)),
        errors=_errors(record, lives, at),
        gaps_ms=_gaps(record, lives, at),
    )


def _ended_ms(record: ScenarioRecord, each: LifeRecord) -> int:
    ends = [event.time_ms for event in each.timeline.events[-1:] if event.kind in ENDS]
    if each.ended_ms is not None:
        ends.append(each.ended_ms)
    return min(ends, default=record.ended_ms)


def _errors(
    record: ScenarioRecord, lives: Sequence[LifeRecord], at: Floats
) -> dict[str, list[int]]:
    moments: dict[str, list[int]] = {kind.value: [] for kind in ERRORS}
    for each in lives:
        for event in each.timeline.events:
            if event.kind in ERRORS:
                moments[event.kind.value].append(event.time_ms - record.began_ms)
    return {kind: counted(each, at).tolist() for kind, each in moments.items() if each}


def _gaps(
    record: ScenarioRecord, lives: Sequence[LifeRecord], at: Floats
) -> dict[str, list[int | None]]:
    histograms = StepHistograms(at)
    for each in lives:
        signs = np.fromiter(_signs(each), np.int64)
        if len(signs) > 1:
            histograms.add(signs[1:] - record.began_ms, np.diff(signs))
    found = {name: histograms.percentile(share) for name, share in SHARES.items()}
    return {**found, "max": histograms.largest()}


def _signs(each: LifeRecord) -> Iterator[int]:
    for event in each.timeline.events:
        if event.kind in SIGNS:
            yield event.time_ms
    if each.timeline.seen_ms is not None:
        yield each.timeline.seen_ms


def _rounded(values: Floats) -> list[float]:
    return [round(value, DIGITS) for value in values.tolist()]
