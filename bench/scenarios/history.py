"""A run of a scenario as a history: rows for the checks in Spark (``docs/history.md``)."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from bench.histories.rows import HistoryLife, fetched_row, group_row, life_rows, mark_row
from bench.histories.schema import CHANGE, FAULT, SCHEMA
from bench.scenarios.members import session_timeouts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from bench.histories.schema import HistoryRow
    from bench.histories.store import RunFacts
    from bench.scenarios.plan import ScenarioPlan
    from bench.scenarios.record import LifeRecord, ScenarioRecord
    from bench.scenarios.scenario import Scenario
    from bench.scenarios.values import Protocol


ROWS_AT_ONCE: Final = 200_000
"""Rows that are in memory at a time while a run is written: some hundred megabytes."""


def history_rows(
    scenario: Scenario, plan: ScenarioPlan, record: ScenarioRecord
) -> Iterator[HistoryRow]:
    """Return the rows of a run."""
    yield from rows_of_run(scenario, plan, record)
    yield from rows_of_lives(scenario, record.lives)


def rows_of_run(
    scenario: Scenario, plan: ScenarioPlan, record: ScenarioRecord
) -> Iterator[HistoryRow]:
    """Return the rows of a run that are not about a life."""
    began_ms = record.began_ms
    others = scenario.other_partitions_by_group()
    for group in scenario.groups:
        name = group.name
        yield group_row(name, group.protocol.value, began_ms, record.partitions[name], others[name])
    for change in plan.changes:
        yield mark_row(CHANGE, began_ms + change.due_ms, change.word, change.group)
    for fault in record.faults:
        yield mark_row(FAULT, began_ms + fault.at_ms, str(fault))
        if fault.ended_ms is not None:
            yield mark_row(FAULT, began_ms + fault.ended_ms, f"end of {fault}")
    for read in record.reads:
        yield fetched_row(read.group, read.asked_ms, read.time_ms, read.offsets)


def rows_of_lives(scenario: Scenario, lives: Iterable[LifeRecord]) -> Iterator[HistoryRow]:
    """Return the rows of some lives; Spark's tasks may call it, each with a part of all."""
    groups = {group.name: group for group in scenario.groups}
    sessions = session_timeouts(scenario)
    for each in lives:
        group = groups[each.life.group]
        protocol = each.life.protocol or group.protocol
        yield from life_rows(_life(protocol, each, sessions[group.name, protocol]))


def write_history(
    session: SparkSession, directory: Path, facts: RunFacts, rows: Iterator[HistoryRow]
) -> Path:
    """Write a run into a directory, and return its folder; raises HistoryError."""
    from bench.histories.store import write_parts

    def parts(rows: Iterator[HistoryRow]) -> Iterator[DataFrame]:
        while part := list(islice(rows, ROWS_AT_ONCE)):
            yield session.createDataFrame(part, SCHEMA)

    return write_parts(parts(rows), facts, directory)


def run_id_of(scenario: str, words: Sequence[str]) -> str:
    """Return the name of a run: the scenario's, and the words that tell it from other runs.

    A character that a folder's name cannot have becomes a hyphen.
    """
    return re.sub(r"[^\w.-]+", "-", "-".join((scenario, *words)))


def facts_of(name: str, scenario: Scenario, record: ScenarioRecord) -> RunFacts:
    """Return the facts of a run."""
    from bench.histories.store import RunFacts

    return RunFacts(
        run_id=name,
        what=scenario.about,
        changed_ms=record.changed_ms,
        ended_ms=record.ended_ms,
        clock_error_ms=record.clock_error_ms,
        missing_members=record.missing,
    )


def _life(protocol: Protocol, each: LifeRecord, session_timeout_ms: int) -> HistoryLife:
    life, timeline = each.life, each.timeline
    return HistoryLife(
        group_id=life.group,
        protocol=protocol.value,
        member=life.name,
        life=life.number,
        instance_id=life.name if timeline.is_static else None,
        session_timeout_ms=session_timeout_ms,
        started_ms=each.started_ms,
        ended_ms=each.ended_ms,
        events=timeline.events,
        seen_ms=timeline.seen_ms,
        holds=timeline.holds,
        generation=timeline.events[-1].generation if timeline.events else None,
        open_commits=timeline.open_commits,
    )
