"""``rollcall rehearse SCENARIO``: what a deploy, a crash or a bad application costs its group.

A scenario (``docs/scenarios.md``) is expanded to a plan, and the plan is run in virtual time on the
simulator's cluster, or in real time: on a cluster of its own, on Apache Kafka, or on one that runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.cli.session import add_security_flag
from actors.client.security import read_security
from actors.errors import BadInputError, CommandError
from bench.interruption import Interrupted, interruptible, quiet_if_unread
from bench.live_group import imported
from bench.pages.files import report_path, write_reports
from bench.pages.runs import ReportedRun, report
from bench.rehearsals.checked import with_histories
from bench.rehearsals.comparison import Comparison
from bench.rehearsals.guest import GuestCluster
from bench.rehearsals.masters import SparkMaster, is_submitted, master
from bench.rehearsals.open_files import check_open_files
from bench.rehearsals.runs import RUN_ERRORS, Place, Planned, Run, SparkPlace, run_all, words_of
from bench.result_files import result_path, write_all, write_aside
from bench.scenarios.effects import checked_plan
from bench.scenarios.files import SUFFIX, found, names, parsed_variants
from bench.scenarios.history import run_id_of
from bench.scenarios.verdicts.conditions import FailOn
from bench.servers.java import need_spark
from bench.servers.kafka import need_kafka
from bench.servers.server import StartError
from failover.drills.checked import DrillError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.pages.document import ReportDocument
    from bench.rehearsals.runs import RunError
    from bench.scenarios.scenario import Scenario

OK, FAILURE, BAD_INPUT = 0, 1, 2
TASKS_MAX = 64
USED_BY_FROM_GROUP: Final = frozenset({"from_group", "bootstrap", "command_config"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse one scenario; return the exit code: 1 if the verdict is not clean, 2 without one."""
    try:
        with interruptible():
            return _main(_parser(), arguments)
    except Interrupted as stop:
        print(f"rollcall: The rehearsal was {stop}.", file=sys.stderr)
        return stop.exit_code


def _main(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    asked = parser.parse_args(arguments)
    try:
        if asked.from_group is not None:
            _check_alone(parser, asked)
        if asked.from_group is not None or asked.list or asked.scenario is None:
            return _without_a_run(asked)
        planned = _planned(asked)
    except (DrillError, BadInputError) as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return BAD_INPUT
    try:
        with quiet_if_unread():
            return _rehearse(asked, planned)
    except BadInputError as error:
        print(f"rollcall: {error}", file=sys.stderr)
    except RUN_ERRORS as error:
        print(f"rollcall: The rehearsal could not be completed: {error}", file=sys.stderr)
    return BAD_INPUT


def _rehearse(asked: argparse.Namespace, planned: Sequence[Planned]) -> int:
    """Run what was planned, and print the verdict; return the exit code.

    What was completed is told and written, whatever failed; then the first failure is raised.
    """
    runs, failure = run_all(
        planned,
        _places(asked),
        _running(asked),
        _say,
        spark=_spark(asked),
        history=asked.history,
    )
    return OK if _tell(asked, runs, failure).is_clean else FAILURE


def _check_alone(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    """Raise BadInputError if there is something beside --from-group that it does not use."""
    beside = [
        "SCENARIO" if name == "scenario" else f"--{name.replace('_', '-')}"
        for name, value in vars(asked).items()
        if name not in USED_BY_FROM_GROUP and value != parser.get_default(name)
    ]
    if beside:
        raise BadInputError(f"--from-group only prints a scenario: omit {', '.join(beside)}.")


def _without_a_run(asked: argparse.Namespace) -> int:
    """Print a group's scenario, or list the scenarios; return the exit code."""
    if asked.from_group is not None:
        return _import(_running(asked), asked.from_group)
    if not asked.list:
        sentence = f"Name a scenario, one of these or a file that ends with {SUFFIX}."
        print(f"rollcall: {sentence}", file=sys.stderr, flush=True)
    for name in names():
        print(f"{name:26} {found(name).about}")
    return OK if asked.list else BAD_INPUT


def _tell(asked: argparse.Namespace, runs: Sequence[Run], failure: RunError | None) -> Comparison:
    """Check the histories if they are kept, print the verdict, and write what is asked for.

    The verdict is printed before files are written. ``failure``: of the run after these ones. It is
    raised in the end, and so is that of the checks.
    """
    failures: list[RunError] = [] if failure is None else [failure]
    if asked.history:
        runs, unchecked = with_histories(runs, asked.history, _say)
        failures += [] if unchecked is None else [unchecked]
    verdicts = [run.verdict for run in runs]
    told = Comparison(verdicts, asked.fail_on, [f"Not completed: {each}" for each in failures])
    print(told.text(), flush=True)
    _write(asked, runs, told)
    if failures:
        raise failures[0]
    return told


def _write(asked: argparse.Namespace, runs: Sequence[Run], told: Comparison) -> None:
    """Write every file that is asked for, also if another one cannot be written."""
    scenario = runs[0].planned.scenario

    def write_json(path: Path) -> None:
        write_aside(path, json.dumps(told.document(), indent=2) + "\n")

    def make() -> ReportDocument:
        return report(scenario.name, scenario.about, _reported(runs, told), told.lacks)

    write_all(
        *([partial(write_json, asked.json)] if asked.json else []),
        *([partial(write_aside, asked.markdown, told.markdown())] if asked.markdown else []),
        partial(write_reports, asked.report, make),
    )


def _planned(asked: argparse.Namespace) -> list[Planned]:
    """Return the variants that are asked for, each with its plan, and say what they are."""
    variants = parsed_variants(asked.scenario)
    _check(asked, {name: each.scenario for name, each in variants.items()})
    planned = [
        Planned(variant=name, scenario=each.scenario, plan=checked_plan(each))
        for name, each in variants.items()
        if not asked.variant or name in asked.variant
    ]
    if not asked.simulate:
        for each in planned:
            tasks, is_own = asked.spark or 1, asked.bootstrap is None
            check_open_files(each.scenario, each.plan, tasks, is_own=is_own)
    scenario = planned[0].scenario
    _say(f"{scenario.about}; {scenario.members} members, {scenario.duration / 1000:g} s")
    return planned


def _running(asked: argparse.Namespace) -> GuestCluster | None:
    """Return the cluster that runs already; None: none is used."""
    if asked.bootstrap is None:
        return None
    return GuestCluster(asked.bootstrap, asked.command_config)


def _import(cluster: GuestCluster | None, group_id: str) -> int:
    """Print the scenario of a group that runs; return the exit code."""
    if cluster is None:
        print("rollcall: give the cluster of --from-group: --bootstrap HOST:PORT.", file=sys.stderr)
        return BAD_INPUT
    try:
        print(imported(cluster, group_id), end="")
    except (DrillError, BadInputError) as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return BAD_INPUT
    except CommandError as error:
        print(f"rollcall: {error}.", file=sys.stderr)
        return BAD_INPUT
    return OK


def _check(asked: argparse.Namespace, variants: Mapping[str, Scenario]) -> None:
    """Raise BadInputError if an option does not fit the scenario, or a file cannot be written."""
    for name in asked.variant:
        if name not in variants:
            raise BadInputError(f"There is no variant {name!r}: use {', '.join(variants)}.")
    groups = [group for scenario in variants.values() for group in scenario.groups]
    for condition in asked.fail_on:
        if not any(map(condition.means, groups)):
            raise BadInputError(f"--fail-on {condition.text}: there is no such group.")
    if asked.command_config is not None:
        if asked.bootstrap is None:
            raise BadInputError("--command-config is for a cluster that runs: add --bootstrap.")
        read_security(asked.command_config)
    _check_spark(asked)
    _check_programs(asked)
    if asked.history:
        _check_histories(asked, variants)


def _check_spark(asked: argparse.Namespace) -> None:
    """Raise BadInputError if tasks of Spark cannot drive the members."""
    if asked.spark and asked.simulate:
        raise BadInputError("--spark drives members in real time: omit it with --simulate.")
    if asked.master is not None and not asked.spark:
        raise BadInputError("--master says where tasks of Spark run: say how many by --spark N.")
    if is_submitted() and not asked.spark and not asked.simulate:
        raise BadInputError("Say how many tasks of Spark drive the members: --spark N.")
    if asked.master is not None:
        asked.master.check(asked.spark)


def _spark(asked: argparse.Namespace) -> SparkPlace | None:
    """Return where tasks of Spark drive the members; None: they do not."""
    if not asked.spark:
        return None
    here = None if is_submitted() else SparkMaster.parse(f"local[{asked.spark}]")
    return SparkPlace(tasks=asked.spark, master=asked.master or here)


def _check_programs(asked: argparse.Namespace) -> None:
    """Raise BadInputError if Java, or what needs it, is missing; Kafka is downloaded here."""
    try:
        if asked.history or asked.spark:
            need_spark()
        if asked.kafka:
            need_kafka()
    except StartError as error:
        raise BadInputError(str(error)) from None


def _check_histories(asked: argparse.Namespace, variants: Mapping[str, Scenario]) -> None:
    """Raise BadInputError if the history of a run is there already: it would not be replaced."""
    if asked.history.exists() and not asked.history.is_dir():
        raise BadInputError(f"{asked.history} is no directory: name another one for --history.")
    chosen = [name for name in variants if not asked.variant or name in asked.variant]
    scenario = next(iter(variants.values()))
    for words in words_of(chosen, _places(asked), _running(asked)).values():
        folder = asked.history / f"run_id={run_id_of(scenario.name, words)}"
        if folder.exists():
            raise BadInputError(f"{folder} exists: remove it, or name another directory.")


def _places(asked: argparse.Namespace) -> list[Place]:
    first = Place.SIMULATED if asked.simulate else Place.GUEST if asked.bootstrap else Place.OWN
    return [first, Place.KAFKA] if asked.kafka else [first]


def _say(text: str) -> None:
    print(text, flush=True)


def _reported(runs: Sequence[Run], told: Comparison) -> list[ReportedRun]:
    """Return the runs under the names that tell them apart."""
    return [
        ReportedRun(
            name=", ".join(run.words) or run.verdict.scenario,
            record=run.record,
            verdict=run.verdict,
            failures=told.told_failures(run.verdict),
        )
        for run in runs
    ]


def _tasks(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= TASKS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {TASKS_MAX}")
    return int(text)


def _fail_on(text: str) -> FailOn:
    try:
        return FailOn.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall rehearse",
        description="Rehearse what happens to applications, and print what it costs their groups.",
    )
    parser.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="a name, see --list, or a .toml file"
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--simulate", action="store_true",
        help="run it in virtual time (default: in real time, on a cluster that is started for it)",
    )  # fmt: skip
    parser.add_argument(
        "--from-group", metavar="GROUP", help="print a scenario of this group of --bootstrap"
    )
    where.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="run it on this cluster, whose nodes are spared"
    )
    add_security_flag(parser)
    parser.add_argument(
        "--kafka", action="store_true", help="run it on Apache Kafka, too, which needs Java"
    )
    parser.add_argument(
        "--spark", type=_tasks, default=0, metavar="N",
        help="let N tasks of Spark drive the members, which may be ten thousands",
    )  # fmt: skip
    parser.add_argument(
        "--master", type=master, metavar="URL",
        help="where the tasks run: local[N], local-cluster[WORKERS,CORES,MEBIBYTES] or"
        " spark://HOST:PORT (default: in one process of this machine)",
    )  # fmt: skip
    parser.add_argument(
        "--variant", action="append", default=[], metavar="NAME",
        help="run only this variant; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on", action="append", default=[], type=_fail_on, metavar="CONDITION",
        help="exit with 1 if this holds: [GROUP:]MEASURE>NUMBER; may be repeated",
    )  # fmt: skip
    _add_outputs(parser)
    return parser


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the options that name files and directories to write."""
    parser.add_argument(
        "--json", type=result_path, metavar="FILE", help="write the verdict to FILE"
    )
    parser.add_argument(
        "--markdown", type=result_path, metavar="FILE",
        help="write the table to FILE for a pull request",
    )  # fmt: skip
    parser.add_argument(
        "--report", type=report_path, action="append", default=[],
        metavar="FILE",
        help="write a page about the run to FILE.html, its tables to FILE.md, or its data to"
        " FILE.json",
    )  # fmt: skip
    parser.add_argument(
        "--history", type=Path, metavar="DIR",
        help="write what members saw to DIR, and check it as rollcall check does",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
