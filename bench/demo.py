"""``make demo``: ten thousand members live through deploys, a bad application and a killed leader.

The scenario ``ten-thousand`` runs on three coordinators; Spark drives its members, checks their
histories, and a page shows what happened to whom. The exit code is 0 only if no rule was broken and
no application paid more than the scenario expects. ``--members N`` runs the short demo instead:
:mod:`bench.kill_demo`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.errors import CommandError
from bench import kill_demo
from bench.histories.session import SMALL
from bench.interruption import Interrupted, interruptible
from bench.pages.files import report_path, write_reports
from bench.pages.runs import ReportedRun, report
from bench.rehearsals import real
from bench.rehearsals.checked import history_result
from bench.rehearsals.copies import in_first_copies
from bench.rehearsals.masters import SparkMaster
from bench.rehearsals.runs import SparkPlace, crowds
from bench.rehearsals.spark_jobs import told
from bench.rehearsals.stages import own_stage
from bench.scenarios.files import found
from bench.scenarios.plan import expand
from bench.scenarios.verdicts.applications import applications
from bench.scenarios.verdicts.verdict import judge
from bench.servers.java import need_spark
from bench.servers.server import StartError
from failover.columns import aligned
from failover.drills.checked import DrillError
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from bench.histories.verdict import HistoryVerdict
    from bench.pages.document import ReportDocument
    from bench.rehearsals.spark_history import WrittenHistory
    from bench.scenarios.record import ScenarioRecord
    from bench.scenarios.scenario import Scenario
    from bench.scenarios.verdicts.verdict import ScenarioVerdict

OK, FAILURE, BAD_INPUT = 0, 1, 2
STORY: Final = "ten-thousand"
REPORT: Final = "rollcall-demo.html"
TASKS_MAX: Final = 8
SHOWN_MAX: Final = 3
"""Examples of each check that are printed; the page has more."""


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
    scenario = found(STORY)
    plan = expand(scenario)
    tasks = min(os.cpu_count() or 1, TASKS_MAX)
    master = SparkMaster.parse(f"local[{tasks}]")
    # Its Java checks one history of one part in the end: what it compiles is used once.
    master = replace(master, settings={**master.settings, **SMALL})
    spark = SparkPlace(tasks=tasks, master=master)
    _say(scenario.about)
    with (
        tempfile.TemporaryDirectory(prefix="rollcall-demo-") as directory,
        crowds(spark, Path(directory), _say) as made,
        made.history(STORY) as history,
    ):
        assert history is not None
        _say("Starting three coordinators ...")
        with own_stage(scenario) as stage:
            record = real.run(scenario, plan, stage, _teller(scenario), made.of(history))
        verdict = judge(scenario, record, stage.how)
        print(f"\n{table(verdict)}")
        _say(*verdict.remarks(3))
        _say("\nSpark checks what every member saw ...")
        assert made.session is not None
        written = history.finish(scenario, plan, record)
        checked = _checked(made.session, written)
        if not isinstance(checked, StartError):
            _say(said(checked))
    write_reports([asked.report], lambda: told_report(scenario, record, verdict, checked))
    if isinstance(checked, StartError):
        raise checked
    return OK if verdict.is_clean and checked.is_clean else FAILURE


def told_report(
    scenario: Scenario,
    record: ScenarioRecord,
    verdict: ScenarioVerdict,
    checked: HistoryVerdict | StartError,
) -> ReportDocument:
    """Return the document of the page, with what the checks of the history found, or why nothing.

    Without these checks the page is not clean.
    """
    if isinstance(checked, StartError):
        run = ReportedRun(name=STORY, record=record, verdict=verdict, failures=(str(checked),))
        return report(STORY, scenario.about, [run])
    found = history_result(sum(checked.facts.rows.values()), checked.outcomes)
    run = ReportedRun(
        name=STORY,
        record=record,
        verdict=replace(verdict, history=found),
        failures=checked.exceeded,
    )
    return report(STORY, scenario.about, [run])


def _checked(session: SparkSession, written: WrittenHistory) -> HistoryVerdict | StartError:
    """Let Spark check a history; return why it could not."""
    from bench.histories.prepared import PreparedHistory
    from bench.histories.store import HistoryError, read_facts, read_run
    from bench.histories.verdict import judge_history

    try:
        run = written.found()
        facts = read_facts(run)
        with told("Spark cannot check the history"):
            return judge_history(PreparedHistory(read_run(session, run, facts), facts))
    except StartError as error:
        return error
    except HistoryError as error:
        return StartError(str(error))


def said(checked: HistoryVerdict) -> str:
    """Return in a few lines what the checks of the history found, with groups and examples."""
    from bench.histories.checks import CHECKS

    found = [each for each in checked.outcomes if each.count]
    lines = [f"{sum(checked.facts.rows.values()):,} rows, {len(checked.outcomes)} checks."]
    for each in found:
        check = CHECKS[each.check]
        lines.append(f"{str(check.severity).upper()} {each.check}: {each.count}, {check.sentence}")
        lines += [f"  {example.group_id}: {example.text}" for example in each.examples[:SHOWN_MAX]]
    lines += checked.exceeded
    lines.append("No promise was broken." if checked.is_clean else "NOT CLEAN")
    return "\n".join(lines)


def table(verdict: ScenarioVerdict) -> str:
    """Return what each application paid; the groups of its copies are added up."""
    rows = [["application", "groups", "members", "rebalances", "unavailable member-s",
             "longest unowned s", "failed members"]]  # fmt: skip
    for each in applications(verdict.groups):
        paid = each.costs
        rows.append(
            [
                each.name,
                str(len(each.copies)),
                str(paid.members),
                str(paid.rebalances),
                f"{paid.unavailable_member_ms / 1000:.1f}",
                f"{paid.unowned_ms / 1000:.1f}",
                str(paid.failed),
            ]
        )
    return aligned(rows, right=set(range(1, len(rows[0]))))


def _teller(scenario: Scenario) -> Callable[[int, str], None]:
    """Return what prints what happens; of several copies of an application, to the first."""
    is_told = in_first_copies(scenario)

    def tell(at_ms: int, text: str) -> None:
        if is_told(text):
            print(f"{at_ms / 1000:8.1f} s  {text}", flush=True)

    return tell


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
