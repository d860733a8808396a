"""Make the document of a page from what a drill recorded, and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.pages.document import Figure, ReportDocument, RunReport
from bench.pages.groups import (
    GROUPS_MAX,
    STORIES_EACH_MAX,
    PaidGroup,
    cost_rows,
    costliest,
    sentence_of,
    which_are_drawn,
)
from bench.pages.stories import marks, stories
from bench.pages.tables import number
from bench.pages.watched import watched_groups
from bench.scenarios.plan import Life
from bench.scenarios.record import LifeRecord, ScenarioRecord, costs
from bench.scenarios.values import Protocol
from failover.drills.drill import FAULTS
from protocol.config import Configs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.load.rehearsal import RehearsalLog
    from bench.pages.document import CostRow, GroupStory
    from failover.drills.drill import Drill, Workload
    from failover.drills.observation import Observation
    from failover.drills.verdict import DrillRecord, MemberTimeline, Verdict, VerdictRow

HOW: Final = "drill on a live cluster"
FOUND: Final = "what the checks found"


def drill_report(
    drill: Drill, verdict: Verdict, log: RehearsalLog, program: str = "Rollcall"
) -> ReportDocument:
    """Return the document of one drill; without a record it has figures and marks only."""
    run = _run(drill, verdict, log)
    return ReportDocument(
        title=drill.name,
        about=drill.about,
        is_clean=run.is_clean,
        verdict=run.verdict,
        program=program,
        made="",
        runs=(run,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """What is told of the groups; the ``record`` has the times and marks of the run."""

    record: ScenarioRecord
    how: str = HOW
    costs: Sequence[CostRow] = ()
    stories: Sequence[GroupStory] = ()
    notes: Sequence[str] = ()


def _run(drill: Drill, verdict: Verdict, log: RehearsalLog) -> RunReport:
    groups = _groups(drill, log)
    record, notes = groups.record, [*groups.notes]
    return RunReport(
        name=drill.name,
        how=groups.how,
        is_clean=verdict.is_clean,
        verdict=_sentence(verdict),
        duration_ms=record.ended_ms - record.began_ms,
        changed_ms=record.changed_ms - record.began_ms,
        figures=[Figure(name=row.name, value=row.value, limit=row.limit) for row in verdict.rows],
        costs=groups.costs,
        found={FOUND: list(verdict.complaints)} if verdict.complaints else {},
        marks=marks(record, (), notes),
        stories=groups.stories,
        notes=notes,
    )


def _groups(drill: Drill, log: RehearsalLog) -> _Groups:
    if log.record is not None:
        return _with_members(as_scenario(log.record, drill.workload, log), log)
    if log.seen is not None:
        return _watched(log.seen, log)
    note = "The members ran elsewhere, so that their histories are not drawn."
    return _Groups(record=_without_members(log), notes=[note])


def _with_members(record: ScenarioRecord, log: RehearsalLog) -> _Groups:
    paid = [
        PaidGroup(name=name, kind=log.types[name], costs=costs(record, name))
        for name in record.partitions
    ]
    drawn = costliest([paid], STORIES_EACH_MAX)
    notes = [which_are_drawn(len(drawn), len(paid))] if len(paid) > len(drawn) else []
    return _Groups(
        record=record,
        costs=cost_rows(paid, costliest([paid], GROUPS_MAX)),
        stories=stories(record, drawn, len(drawn), notes),
        notes=notes,
    )


def _watched(seen: Observation, log: RehearsalLog) -> _Groups:
    groups = watched_groups(seen)
    fault_ms = seen.fault_ms or groups.began_ms
    faults = {each.text: each.started_ms for each in log.steps if each.name in FAULTS}
    done = sorted((faults.get(text, at_ms), text) for at_ms, text in log.told)
    record = ScenarioRecord(
        lives=(),
        began_ms=groups.began_ms,
        changed_ms=fault_ms,
        ended_ms=groups.ended_ms,
        committed={},
        partitions={},
        marks=_since(
            groups.began_ms,
            [(at_ms, text) for at_ms, text in done if fault_ms <= at_ms <= groups.ended_ms],
        ),
    )
    return _Groups(
        record=record,
        how=f"{HOW}, {groups.described}",
        costs=groups.costs,
        stories=groups.stories,
        notes=groups.notes,
    )


def _without_members(log: RehearsalLog) -> ScenarioRecord:
    moments = [at_ms for at_ms, _ in log.told] or [0]
    return ScenarioRecord(
        lives=(),
        began_ms=moments[0],
        changed_ms=moments[0],
        ended_ms=moments[-1],
        committed={},
        partitions={},
        marks=_since(moments[0], log.told),
    )


def as_scenario(record: DrillRecord, workload: Workload, log: RehearsalLog) -> ScenarioRecord:
    """Return a drill's record as that of a scenario, in which each member has only its events.

    A life begins with its first event, and one that is over ends with its last. The first fault is
    the first change.
    """
    lives = [_life(number, each) for number, each in enumerate(record.stories) if each.events]
    began_ms = min((each.started_ms for each in lives), default=record.fault_ms)
    seen = [each.timeline.seen_ms for each in lives if each.timeline.seen_ms is not None]
    ended_ms = max(seen, default=record.fault_ms)
    return ScenarioRecord(
        lives=lives,
        began_ms=began_ms,
        changed_ms=record.fault_ms or began_ms,
        ended_ms=ended_ms,
        committed=record.committed,
        partitions={
            name: [(name, index) for index in range(workload.partitions_each)] for name in log.types
        },
        marks=[
            (at_ms, text)
            for at_ms, text in _since(began_ms, log.told)
            if record.fault_ms - began_ms <= at_ms <= ended_ms - began_ms
        ],
        sessions={(name, None): _session_ms(kind, workload) for name, kind in log.types.items()},
    )


def _session_ms(group_type: str, workload: Workload) -> int:
    """Return how long sessions last: where the coordinator decides it, usually."""
    if group_type == Protocol.CLASSIC:
        return workload.session_timeout_ms
    return Configs({}).integer(f"group.{group_type}.session.timeout.ms")


def _life(number: int, timeline: MemberTimeline) -> LifeRecord:
    events = timeline.events
    return LifeRecord(
        life=Life(timeline.group_id, timeline.name, number),
        started_ms=events[0].time_ms,
        ended_ms=None if timeline.seen_ms is not None else events[-1].time_ms,
        timeline=timeline,
    )


def _since(began_ms: int, told: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(at_ms - began_ms, text) for at_ms, text in told]


def _sentence(verdict: Verdict) -> str:
    limited: Mapping[bool, list[VerdictRow]] = {True: [], False: []}
    for row in verdict.rows:
        if row.limit is not None:
            limited[row.is_clean].append(row)
    if not limited[False]:
        return f"Every limit was kept ({len(limited[True])})."
    reasons = [
        f"{row.name}: {number(row.value)}, and at most {number(row.limit)} may be"
        for row in limited[False]
    ]
    return sentence_of(reasons)
