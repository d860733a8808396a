"""``rollcall bench histories``: how long the checks of a large history take, and how much memory.

Spark makes a history with every planted fault, and ``rollcall check`` runs over it in a process of
its own. The run fails if a check does not find its fault, or finds one in another group, or if a
cost is not larger in the group with its fault than in one without.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.check import memory
from bench.histories.session import MEMORY, check_settings
from bench.interruption import Interrupted, interruptible
from bench.pages.measured import add_report_option, write_bench_report
from bench.rehearsals.masters import master
from bench.rehearsals.spark_jobs import told
from bench.report.progress import note
from bench.report.rounds import BenchRow
from bench.report.tables import as_json, table
from bench.result_files import result_path, write_aside
from bench.servers.java import need_spark
from bench.servers.rollcall import command
from bench.servers.server import StartError
from bench.servers.usage import SampledUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OK, FAILURE, BAD_INPUT = 0, 1, 2
ROWS: Final = 10_000_000
ROWS_MAX: Final = 1_000_000_000
RUN_ID: Final = "made"
VERDICT: Final = "verdict.json"
CASE: Final = "histories"
ABOUT: Final = "the checks of a large history with a planted fault for each"
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMeasure:
    """What one run of the checks took, and its verdict as a document."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    verdict: dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        need_spark()
    except StartError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return BAD_INPUT
    directory = asked.keep or Path(tempfile.mkdtemp(prefix="rollcall-histories-"))
    began_s = time.monotonic()
    try:
        with interruptible():
            _make(directory, asked.rows)
            measured = _measure(directory, _words(directory, asked))
            missed = [*_missed(measured.verdict), *_equal_costs(directory)]
    except (StartError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return BAD_INPUT
    except Interrupted as stop:
        print(f"rollcall: The benchmark was {stop}.", file=sys.stderr)
        return stop.exit_code
    finally:
        if asked.keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    rows = [_row(measured)]
    print(table(rows), flush=True)
    try:
        if asked.json:
            write_aside(asked.json, as_json(CASE, rows))
        write_bench_report(asked.report, CASE, ABOUT, rows, began_s, broken=missed)
    except OSError as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return BAD_INPUT
    for sentence in missed:
        print(sentence, file=sys.stderr)
    return FAILURE if missed else OK


def _make(directory: Path, rows: int) -> None:
    """Write the history in a process of its own, unless it is there."""
    if list(directory.glob(f"*{RUN_ID}/_run.json")):
        return
    note(f"Making a history of about {rows:,} rows ...")
    process = multiprocessing.get_context("spawn").Process(target=_write, args=(directory, rows))
    process.start()
    try:
        process.join()
    finally:
        process.terminate()
    if process.exitcode:
        raise StartError("The history could not be made: see above.")


def _write(directory: Path, rows: int) -> None:
    from bench.histories.made import HistoryShape, made
    from bench.histories.planted import with_faults
    from bench.histories.store import HistoryError, write_run
    from bench.load.spark import local_session

    shape = HistoryShape.of_rows(rows)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with told("Spark cannot make the history"):
            session = local_session(check_settings(rows))
            write_run(with_faults(made(session, shape), shape), shape.facts(RUN_ID), directory)
            session.stop()
    except (StartError, HistoryError, OSError) as error:
        sys.exit(f"rollcall: {error}")


def _words(directory: Path, asked: argparse.Namespace) -> list[str]:
    """Return the command that checks the history."""
    where = [] if asked.master is None else ["--master", asked.master]
    out = str(directory / VERDICT)
    return ["check", str(directory), "--memory", asked.memory, *where, "--json", out]


def _measure(directory: Path, words: Sequence[str]) -> CheckMeasure:
    """Run the checks in a process of its own and watch its memory, with that of its children.

    Executors of a Spark cluster are none of its children.
    """
    note("Checking it ...")
    began = time.perf_counter()
    process = subprocess.Popen(command(words), stdout=subprocess.DEVNULL)
    watched = SampledUsage(process.pid)
    try:
        exit_code = process.wait()
    finally:
        process.kill()
        watched.stop()
    if exit_code not in (OK, FAILURE):
        raise StartError("The history could not be checked: see above.")
    return CheckMeasure(
        seconds=time.perf_counter() - began,
        cpu_seconds=watched.cpu_seconds,
        peak_bytes=watched.peak_bytes,
        verdict=json.loads((directory / VERDICT).read_text())["runs"][0],
    )


def _row(measured: CheckMeasure) -> BenchRow:
    figures = {
        "rows": float(measured.verdict["rows"]),
        "seconds_s": measured.seconds,
        "cpu_s": measured.cpu_seconds,
        "rows_per_s": measured.verdict["rows"] / measured.seconds,
        "peak_mib": measured.peak_bytes / MIB,
    }
    return BenchRow(case=CASE, server="Rollcall", rounds=(figures,))


def _missed(verdict: dict[str, Any]) -> list[str]:
    """Return a sentence for each check that did not find just its planted fault."""
    from bench.histories.planted import groups_of

    found = {
        name: {example["group_id"] for example in check["examples"]}
        for name, check in verdict["checks"].items()
    }
    return [
        f"{name} should have found a fault in {', '.join(sorted(groups_of(name)))} only, and found"
        f" {', '.join(sorted(groups)) or 'nothing'}."
        for name, groups in found.items()
        if groups != groups_of(name)
    ]


def _equal_costs(directory: Path) -> list[str]:
    """Return a sentence for each cost that its fault did not raise; this is not measured."""
    from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

    from bench.histories.costs import COSTS
    from bench.histories.planted import FAULTS, group_of, subject_of, unharmed
    from bench.histories.prepared import PreparedHistory
    from bench.histories.store import read_facts, read_run, runs_in
    from bench.histories.verdict import costs_by_group
    from bench.load.spark import local_session

    note("Looking at the costs of its groups ...")
    groups = {
        name: (group_of(name), unharmed(fault.protocol))
        for name, fault in FAULTS.items()
        if subject_of(name) in COSTS
    }
    (run,) = runs_in(directory)
    facts = read_facts(run)
    with told("Spark cannot compute the costs"):
        session = local_session(check_settings(sum(facts.rows.values())))
        looked_at = {group for each in groups.values() for group in each}
        rows = read_run(session, run, facts).where(F.col("group_id").isin(*looked_at))
        found = {
            (row["cost"], row["group_id"]): row["value"]
            for row in costs_by_group(PreparedHistory(rows, facts)).collect()
        }
        session.stop()
    return _not_raised(groups, found)


def _not_raised(
    groups: Mapping[str, tuple[str, str]], found: Mapping[tuple[str, str], int]
) -> list[str]:
    """Compare each cost in its two groups: with its fault, and without one."""
    from bench.histories.planted import subject_of

    pairs = {
        name: tuple(found.get((subject_of(name), group), 0) for group in groups[name])
        for name in groups
    }
    return [
        f"{subject_of(name)} should be more in {harmed} than in {other}, and is"
        f" {pairs[name][0]} and {pairs[name][1]}."
        for name, (harmed, other) in groups.items()
        if pairs[name][0] <= pairs[name][1]
    ]


def _rows(text: str) -> int:
    rows = int(text)
    if not 1 <= rows <= ROWS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {ROWS_MAX}")
    return rows


def _master(text: str) -> str:
    """Return the URL of a master as it was given; argparse tells what is none."""
    master(text)
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall bench histories", description="Measure the checks of a large history."
    )
    parser.add_argument(
        "--rows", type=_rows, default=ROWS, metavar="N", help="how many (default: %(default)s)"
    )
    parser.add_argument(
        "--memory", type=memory, default=MEMORY, help="the checks' heap (default: %(default)s)"
    )
    parser.add_argument(
        "--master", type=_master, metavar="URL",
        help="Spark's master for the checks (default: this machine, one task per core)",
    )  # fmt: skip
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="make the history in DIR, or use the one there"
    )
    parser.add_argument(
        "--json", type=result_path, metavar="FILE", help="write the figures to FILE"
    )
    add_report_option(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
