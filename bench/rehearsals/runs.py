"""Carry out the runs of a rehearsal, one after the other: each variant at each place."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from actors.coordinator import gc_tuning
from actors.errors import CommandError
from actors.telemetry.run_traces import RunStep, TracedRun, trace_run
from bench.rehearsals import real
from bench.rehearsals.copies import in_first_copies
from bench.rehearsals.crowd import PlannedCrowd
from bench.rehearsals.guest import guest_stage
from bench.rehearsals.stages import KafkaStage, OwnStage, kafka_stage, notes_on, own_stage
from bench.scenarios import simulated
from bench.scenarios.history import run_id_of
from bench.scenarios.scenario import BASE
from bench.scenarios.verdicts.verdict import ScenarioVerdict, judge
from bench.servers.java import need_spark
from bench.servers.server import StartError
from failover.drills.checked import DrillError
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from bench.rehearsals.guest import GuestCluster
    from bench.rehearsals.masters import SparkMaster
    from bench.rehearsals.real import CrowdOf
    from bench.rehearsals.spark_history import SparkHistory, WrittenHistory
    from bench.rehearsals.stages import Stage
    from bench.scenarios.plan import ScenarioPlan
    from bench.scenarios.record import ScenarioRecord
    from bench.scenarios.scenario import Scenario


RunError: TypeAlias = DrillError | StartError | CommandError | KafkaError | OSError
RUN_ERRORS: Final = (DrillError, StartError, CommandError, KafkaError, OSError)
"""What a run raises if it cannot be completed."""


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
    """One run: what was planned, what it recorded, and the verdict.

    ``words`` tell it apart from the others. ``history`` is there if tasks of Spark have written it
    already.
    """

    planned: Planned
    record: ScenarioRecord
    verdict: ScenarioVerdict
    words: Sequence[str]
    history: WrittenHistory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlace:
    """How many tasks of Spark drive the members, and where; None: where ``spark-submit`` says."""

    tasks: int
    master: SparkMaster | None


def run_all(  # noqa: PLR0913 - what is run, where, and what is kept of it
    variants: Sequence[Planned],
    places: Sequence[Place],
    running: GuestCluster | None,
    say: Callable[[str], None],
    *,
    spark: SparkPlace | None = None,
    history: Path | None = None,
) -> tuple[list[Run], RunError | None]:
    """Run every variant at every place; ``running`` is the cluster that ran before.

    Returns the runs, and if one fails those before it, and its error.

    ``spark``: where tasks of Spark drive the members; None: this process does. Such tasks write
    what they saw into the directory ``history``; of other runs nothing is written here.

    Raises DrillError, StartError, CommandError, KafkaError and OSError if already the first fails.
    """
    runs: list[Run] = []
    words = words_of([planned.variant for planned in variants], places, running)
    try:
        with crowds(spark, history, say) as made:
            for place in places:
                for planned in variants:
                    if len(variants) * len(places) > 1:
                        say(f"--- {WORDS[place]}, {planned.variant}")
                    told = words[place, planned.variant]
                    runs.append(_run(planned, place, running, say, (made, told)))
    except RUN_ERRORS as error:
        if not runs:
            raise
        return runs, error
    return runs, None


@dataclass(frozen=True, slots=True)
class Crowds:
    """What makes the members of each run: over Spark, which also writes histories, or here."""

    session: SparkSession | None = None
    tasks: int = 0
    directory: Path | None = None

    def history(self, run_id: str) -> AbstractContextManager[SparkHistory | None]:
        """Return what the tasks of a run write what they saw with; None: nothing does."""
        if self.session is None or self.directory is None:
            return nullcontext()
        from bench.rehearsals.spark_history import SparkHistory

        return SparkHistory(self.session, run_id, self.directory)

    def of(self, history: SparkHistory | None) -> CrowdOf:
        """Return what makes the members of a run."""
        if self.session is None:
            return PlannedCrowd
        from bench.rehearsals.spark_crowd import SparkCrowd, SparkTasks

        return partial(SparkCrowd, SparkTasks(self.session, self.tasks, history))


@contextmanager
def crowds(
    spark: SparkPlace | None, history: Path | None, say: Callable[[str], None]
) -> Iterator[Crowds]:
    """Yield what makes members; Spark is started for it, and stopped at the end."""
    if spark is None:
        yield Crowds()
        return
    need_spark()
    from bench.rehearsals.masters import session_of
    from bench.rehearsals.spark_tasks import drive_share

    say("starting Spark ...")
    with session_of(spark.master, spark.tasks, drive_share.__module__) as session:
        yield Crowds(session, spark.tasks, history)


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
}
"""What a run is called by its place; on a running cluster, by its address instead."""


def words_of(
    variants: Sequence[str], places: Sequence[Place], running: GuestCluster | None
) -> dict[tuple[Place, str], list[str]]:
    """Return, for the run of each variant at each place, what tells it apart from the others.

    Histories are named by them, so they are known before the run.
    """
    hows = {**HOW, Place.GUEST: "" if running is None else running.bootstrap}
    return {
        (place, variant): ([variant] if len(variants) > 1 else [])
        + ([hows[place]] if len(places) > 1 else [])
        for place in places
        for variant in variants
    }


def _run(
    planned: Planned,
    place: Place,
    running: GuestCluster | None,
    say: Callable[[str], None],
    kept: tuple[Crowds, Sequence[str]],
) -> Run:
    """Run one variant; ``kept`` makes the crowd, and has the words that tell the run apart."""
    scenario, plan = planned.scenario, planned.plan
    made, words = kept

    is_told = in_first_copies(scenario)

    def tell(at_ms: int, text: str) -> None:
        if is_told(text):
            say(f"{at_ms / 1000:8.1f} s  {text}")

    if place is Place.SIMULATED:
        began_s = time.monotonic()
        record = simulated.run(scenario, plan, tell)
        took_s = time.monotonic() - began_s
        say(f"{scenario.duration / 1000:g} s of virtual time took {took_s:.1f} s")
        verdict = judge(scenario, record, HOW[place], planned.variant)
        return Run(planned=planned, record=record, verdict=verdict, words=words)
    with ExitStack() as stack:
        with _stage(planned, place, running, say) as stage:
            notes = notes_on(stage, scenario)
            for note in notes:
                say(note)
            gc_tuning.freeze_heap()  # this process is the members: it must not block itself
            run_id = run_id_of(scenario.name, words)
            history = stack.enter_context(made.history(run_id))
            record = real.run(scenario, plan, stage, tell, made.of(history))
        judged = scenario.on_kafka() if place is Place.KAFKA else scenario
        verdict = judge(judged, record, stage.how, planned.variant, tuple(notes))
        _trace(scenario, record, verdict)
        written = None if history is None else history.finish(scenario, plan, record)
    return Run(planned=planned, record=record, verdict=verdict, words=words, history=written)


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
    planned: Planned,
    place: Place,
    running: GuestCluster | None,
    say: Callable[[str], None],
) -> AbstractContextManager[Stage]:
    if place is Place.GUEST:
        assert running is not None
        return guest_stage(running, planned.scenario)
    say(f"starting {WORDS[place]} ...")
    return own_stage(planned.scenario) if place is Place.OWN else kafka_stage(planned.scenario)
