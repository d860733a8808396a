"""What a group was like over time: members without an assignment, waits, gaps, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from bench.pages.document import Trends
from bench.pages.histogram import StepHistograms
from bench.pages.steps import counted, edges, mean_count, rounded, step_ms
from bench.scenarios.record import ENDS, unavailable
from failover.drills.verdict import SIGNS
from protocol.members.history import MemberHistoryKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.pages.ownership import OwnershipTimes
    from bench.pages.steps import Floats, Integers
    from bench.scenarios.record import LifeRecord, ScenarioRecord

STEPS_MAX: Final = 240

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
        running=rounded(mean_count(running, at + record.began_ms)),
        unavailable=rounded(mean_count(stopped, at + record.began_ms)),
        unowned=rounded(mean_count(ownership.unowned(), at)),
        errors=_errors(record, lives, at),
        durations_ms={name: _percentiles(record, lives, at, of) for name, of in DURATIONS.items()},
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


def _percentiles(
    record: ScenarioRecord, lives: Sequence[LifeRecord], at: Floats, of: DurationsOf
) -> dict[str, list[int | None]]:
    histograms = StepHistograms(at)
    pairs = [of(record, each) for each in lives]
    if pairs:
        ends, durations = np.concatenate(pairs, axis=1)
        histograms.add(ends - record.began_ms, durations)
    found = {name: histograms.percentile(share) for name, share in SHARES.items()}
    return {**found, "max": histograms.largest()}


def _waits(record: ScenarioRecord, each: LifeRecord) -> Integers:
    """Return when each wait for an assignment ended with one, and how long it had lasted."""
    assigned = {
        event.time_ms for event in each.timeline.events if event.kind is MemberHistoryKind.ASSIGNED
    }
    waits = [
        (ended_ms, ended_ms - began_ms)
        for began_ms, ended_ms in unavailable(record, each)
        if ended_ms in assigned
    ]
    return np.array(waits, np.int64).reshape(-1, 2).T


def _gaps(_record: ScenarioRecord, each: LifeRecord) -> Integers:
    """Return the answered heartbeats of a life but the first, and the time since the one before."""
    signs = np.fromiter(_signs(each), np.int64)
    return np.stack((signs[1:], np.diff(signs)))


def _requests(_record: ScenarioRecord, each: LifeRecord) -> Integers:
    """Return when each heartbeat and commit of a life was answered, and how long that took."""
    times = [
        (event.time_ms, event.time_ms - event.asked_ms)
        for event in each.timeline.events
        if event.kind in ANSWERED_AT_ONCE and event.asked_ms is not None
    ]
    return np.array(times, np.int64).reshape(-1, 2).T


ANSWERED_AT_ONCE: Final = (MemberHistoryKind.HEARTBEAT, MemberHistoryKind.COMMITTED)
"""Requests of the other kinds wait for other members."""

DurationsOf: TypeAlias = "Callable[[ScenarioRecord, LifeRecord], Integers]"
"""Returns two rows: when each duration of a life ended, and its length, both in milliseconds."""

DURATIONS: Final[Mapping[str, DurationsOf]] = {
    "waits": _waits, "gaps": _gaps, "requests": _requests,
}  # fmt: skip
"""What is measured in percentiles: waits for an assignment, gaps between heartbeats, requests."""


def _signs(each: LifeRecord) -> Iterator[int]:
    for event in each.timeline.events:
        if event.kind in SIGNS:
            yield event.time_ms
    if each.timeline.seen_ms is not None:
        yield each.timeline.seen_ms
