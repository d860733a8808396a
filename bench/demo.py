"""``make demo``: ten thousand members live through deploys, a bad application and a killed leader.

The scenario ``ten-thousand`` runs on three coordinators; Spark drives its members, checks their
histories, and a page shows what happened to whom. The exit code is 0 only if no rule was broken and
no application paid more than the scenario expects. ``--members N`` runs the short demo instead:
:mod:`bench.kill_demo`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.errors import CommandError
from bench import kill_demo
from bench.interruption import Interrupted, interruptible
from bench.pages.files import report_path, write_reports
from bench.pages.runs import ReportedRun, report
from bench.rehearsals import real
from bench.rehearsals.spark_crowd import SparkCrowd, SparkTasks, drive_share, unpacked
from bench.rehearsals.stages import own_stage
from bench.scenarios.files import found
from bench.scenarios.history import facts_of, rows_of_lives, rows_of_run
from bench.scenarios.plan import expand
from bench.scenarios.verdict import judge
from bench.servers.java import need_spark
from bench.servers.server import StartError
from failover.columns import aligned
from failover.drills.checked import DrillError
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from pyspark.sql import SparkSession

    from bench.histories.verdict import HistoryVerdict
    from bench.rehearsals.stages import Stage
    from bench.scenarios.plan import ScenarioPlan
    from bench.scenarios.record import ScenarioRecord
    from bench.scenarios.scenario import Scenario
    from bench.scenarios.verdict import GroupVerdict, ScenarioVerdict

OK, FAILURE, BAD_INPUT = 0, 1, 2
STORY: Final = "ten-thousand"
REPORT: Final = "rollcall-demo.html"
TASKS_MAX: Final = 8
OTHER_COPY: Final = re.compile(r"[\w.-]+-[1-9]\d*: ")
TRIES: Final = 2
"""Spark runs a lost task once more, which does nothing; otherwise it would end all of them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code: 1 if a promise was broken, 2 without a verdict."""
    asked = _parser().parse_args(arguments)
    try:
        need_spark()
        with interruptible():
            if asked.members is not None:
                return kill_demo.run(asked.members, asked.report)
            return _story(asked)
    except Interrupted as stop:
        print(f"The demo was {stop}.", file=sys.stderr)
        return stop.exit_code
    except (StartError, CommandError, DrillError, KafkaError, OSError) as error:
        print(f"The demo failed: {error}", file=sys.stderr)
    return BAD_INPUT


def _story(asked: argparse.Namespace) -> int:
    from bench.load.spark import local_session, warm_up

    scenario = found(STORY)
    plan = expand(scenario)
    tasks = min(os.cpu_count() or 1, TASKS_MAX)
    _say(scenario.about)
    _say(f"Starting Spark with {tasks} tasks ...")
    session = local_session({"spark.master": f"local[{tasks},{TRIES}]"})
    try:
        warm_up(session, drive_share.__module__)
        crowds: list[SparkCrowd] = []

        def crowd_of(
            scenario: Scenario, plan: ScenarioPlan, stage: Stage, names: Mapping[UUID, str]
        ) -> SparkCrowd:
            crowds.append(
                SparkCrowd(SparkTasks(session.sparkContext, tasks), scenario, plan, stage, names)
            )
            return crowds[-1]

        _say("Starting three coordinators ...")
        with own_stage(scenario) as stage:
            record = real.run(scenario, plan, stage, _tell, crowd_of)
        verdict = judge(scenario, record, stage.how)
        print(f"\n{table(verdict)}")
        _say(*verdict.remarks(3))
        _say("\nSpark checks what every member saw ...")
        checked = _checked(session, scenario, plan, record, crowds[-1].parts)
        _say(said(checked))
    finally:
        session.stop()
    run = ReportedRun(name=STORY, record=record, verdict=verdict)
    write_reports([asked.report], lambda: report(STORY, scenario.about, [run], _broken(checked)))
    return OK if verdict.is_clean and checked.is_clean else FAILURE


def _checked(
    session: SparkSession,
    scenario: Scenario,
    plan: ScenarioPlan,
    record: ScenarioRecord,
    parts: Sequence[bytes],
) -> HistoryVerdict:
    """Write the history from the packed parts, and let Spark check it."""
    from bench.histories.prepared import PreparedHistory
    from bench.histories.schema import SCHEMA
    from bench.histories.store import HistoryError, read_facts, read_run, write_run
    from bench.histories.verdict import judge_history

    def rows(part: bytes) -> Iterator[tuple[object, ...]]:
        lives, _ = unpacked(part)
        return rows_of_lives(scenario, lives)

    of_lives = session.sparkContext.parallelize(parts, len(parts)).flatMap(rows)
    others = session.sparkContext.parallelize([*rows_of_run(scenario, plan, record)], 1)
    history = session.createDataFrame(of_lives.union(others), SCHEMA, verifySchema=False)
    with tempfile.TemporaryDirectory(prefix="rollcall-demo-") as directory:
        facts = facts_of(STORY, scenario, record)
        try:
            run = write_run(history, facts, Path(directory))
            facts = read_facts(run)
            return judge_history(PreparedHistory(read_run(session, run, facts), facts))
        except HistoryError as error:
            raise StartError(str(error)) from None


def said(checked: HistoryVerdict) -> str:
    """Return in a few lines what the checks of the history found."""
    rows = sum(checked.facts.rows.values())
    lines = [f"{rows:,} rows, {len(checked.outcomes)} checks."]
    for each in checked.outcomes:
        if each.count:
            lines.append(f"{each.check}: {each.count}")
            lines += [f"  {example.group_id}: {example.text}" for example in each.examples[:2]]
    lines.append("No promise was broken." if checked.is_clean else "NOT CLEAN")
    return "\n".join(lines)


def _broken(checked: HistoryVerdict) -> list[str]:
    return [] if checked.is_clean else ["Spark found broken promises in the history."]


def table(verdict: ScenarioVerdict) -> str:
    """Return what each application paid; the groups of its copies are added up."""
    rows = [["application", "groups", "members", "rebalances", "unavailable member-s",
             "longest unowned s", "failed members"]]  # fmt: skip
    applications: dict[str, list[GroupVerdict]] = {}
    for each in verdict.groups:
        name = each.group.name.rstrip("0123456789").removesuffix("-")
        applications.setdefault(name, []).append(each)
    for name, groups in applications.items():
        paid = [each.costs for each in groups]
        rows.append(
            [
                name,
                str(len(groups)),
                str(sum(each.members for each in paid)),
                str(sum(each.rebalances for each in paid)),
                f"{sum(each.unavailable_member_ms for each in paid) / 1000:.1f}",
                f"{max(each.unowned_ms for each in paid) / 1000:.1f}",
                str(sum(each.failed for each in paid)),
            ]
        )
    return aligned(rows, right=set(range(1, len(rows[0]))))


def _tell(at_ms: int, text: str) -> None:
    """Print what happens; of several copies of an application, what happens to the first."""
    if OTHER_COPY.match(text):
        return
    print(f"{at_ms / 1000:8.1f} s  {text}", flush=True)


def _say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.demo",
        description="Ten thousand members live through deploys, a bad application and a kill.",
    )
    parser.add_argument(
        "--members", type=int, metavar="N",
        help="run the short demo with N members instead: one kill -9, and its effect",
    )  # fmt: skip
    parser.add_argument(
        "--report", type=report_path, default=Path(REPORT), metavar="FILE",
        help="where to write the page (default: %(default)s)",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
