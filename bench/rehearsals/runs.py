"""Carry out the runs of a rehearsal, one after the other: each variant at each place."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

from actors.coordinator import gc_tuning
from actors.telemetry.run_traces import RunStep, TracedRun, trace_run
from bench.rehearsals import real
from bench.rehearsals.crowd import PlannedCrowd
from bench.rehearsals.guest import guest_stage
from bench.rehearsals.stages import KafkaStage, OwnStage, kafka_stage, notes_on, own_stage
from bench.scenarios import simulated
from bench.scenarios.scenario import BASE
from bench.scenarios.verdict import ScenarioVerdict, judge
from bench.servers.java import need_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from bench.rehearsals.real import CrowdOf
    from bench.rehearsals.stages import Stage
    from bench.scenarios.plan import ScenarioPlan
    from bench.scenarios.record import ScenarioRecord
    from bench.scenarios.scenario import Scenario


class Place(Enum):
    """Where a scenario runs."""

    SIMULATED = auto()
    OWN = auto()
    KAFKA = auto()
    GUEST = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One variant of a scenario and its plan."""

    variant: str
    scenario: Scenario
    plan: ScenarioPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: what was planned, what it recorded, and the verdict."""

    planned: Planned
    record: ScenarioRecord
    verdict: ScenarioVerdict


def run_all(
    variants: Sequence[Planned],
    places: Sequence[Place],
    bootstrap: str,
    say: Callable[[str], None],
    spark_tasks: int = 0,
) -> list[Run]:
    """Run every variant at every place; ``bootstrap`` is that of the cluster that ran before.

    ``spark_tasks``: so many tasks of Spark drive the members; 0: this process does.

    Raises DrillError, StartError, CommandError, KafkaError and OSError.
    """
    runs = []
    with crowds(spark_tasks, say) as crowd_of:
        for place in places:
            for planned in variants:
                if len(variants) * len(places) > 1:
                    say(f"--- {WORDS[place]}, {planned.variant}")
                runs.append(_run(planned, place, bootstrap, say, crowd_of))
    return runs


@contextmanager
def crowds(spark_tasks: int, say: Callable[[str], None]) -> Iterator[CrowdOf]:
    """Yield what makes the members of a scenario: over Spark, which is started, or here."""
    if not spark_tasks:
        yield PlannedCrowd
        return
    need_spark()
    from bench.load.spark import local_session, warm_up
    from bench.rehearsals.spark_crowd import SparkCrowd, SparkTasks, drive_share

    say("starting Spark ...")
    session = local_session({"spark.master": f"local[{spark_tasks},{TRIES}]"})
    try:
        warm_up(session, drive_share.__module__)
        yield partial(SparkCrowd, SparkTasks(session.sparkContext, spark_tasks))
    finally:
        session.stop()


TRIES: Final = 2
"""Spark runs a lost task once more, which does nothing; otherwise it would end all of them."""


WORDS = {
    Place.SIMULATED: "simulated",
    Place.OWN: "a cluster of ours",
    Place.KAFKA: "Apache Kafka",
    Place.GUEST: "the running cluster",
}


HOW = {
    Place.SIMULATED: "simulated",
    Place.OWN: OwnStage.how,
    Place.KAFKA: KafkaStage.how,
    Place.GUEST: "guest",
}
"""What a run is called by its place; on a running cluster, by its addresses instead."""


def _run(
    planned: Planned,
    place: Place,
    bootstrap: str,
    say: Callable[[str], None],
    crowd_of: CrowdOf,
) -> Run:
    scenario, plan = planned.scenario, planned.plan

    def tell(at_ms: int, text: str) -> None:
        say(f"{at_ms / 1000:8.1f} s  {text}")

    notes: Iterable[str] = ()
    if place is Place.SIMULATED:
        how, began_s = HOW[place], time.monotonic()
        record = simulated.run(scenario, plan, tell)
        took_s = time.monotonic() - began_s
        say(f"{scenario.duration / 1000:g} s of virtual time took {took_s:.1f} s")
    else:
        with _stage(planned, place, bootstrap, say) as stage:
            notes = notes_on(stage, scenario)
            for note in notes:
                say(note)
            gc_tuning.freeze_heap()  # this process is the members: it must not block itself
            how, record = stage.how, real.run(scenario, plan, stage, tell, crowd_of)
    verdict = judge(scenario, record, how, planned.variant, tuple(notes))
    if place is not Place.SIMULATED:  # its times are virtual
        _trace(scenario, record, verdict)
    return Run(planned=planned, record=record, verdict=verdict)


def _trace(scenario: Scenario, record: ScenarioRecord, verdict: ScenarioVerdict) -> None:
    """Send the run as a trace, if traces are configured."""
    began_ms = record.began_ms
    marks = [(began_ms + at_ms, text) for at_ms, text in record.marks]
    trace_run(
        TracedRun(
            kind="rehearsal",
            name=scenario.name,
            started_ms=began_ms,
            ended_ms=record.ended_ms,
            is_clean=verdict.is_clean,
            how=verdict.how,
            variant="" if verdict.variant == BASE else verdict.variant,
            told=marks,
            steps=[RunStep(_step_name(text, scenario), at, at, text) for at, text in marks],
        )
    )


def _step_name(text: str, scenario: Scenario) -> str:
    """Return what was done, without the group that it was done to: names of spans are few."""
    heads = (f"{group.name}: " for group in scenario.groups)
    head = next((each for each in heads if text.startswith(each)), "")
    return text.removeprefix(head).partition(" ")[0]


def _stage(
    planned: Planned, place: Place, bootstrap: str, say: Callable[[str], None]
) -> AbstractContextManager[Stage]:
    if place is Place.GUEST:
        return guest_stage(bootstrap, planned.scenario, planned.plan)
    say(f"starting {WORDS[place]} ...")
    return own_stage(planned.scenario) if place is Place.OWN else kafka_stage(planned.scenario)
