"""``rollcall bench histories``: how long the checks of a large history take, and how much memory.

Spark makes a history with every planted fault, and ``rollcall check`` runs over it in a process of
its own. The run fails if a check does not find its fault, or finds one in another group.
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
from bench.histories.session import MEMORY
from bench.interruption import Interrupted, interruptible
from bench.pages.measured import add_report_option, write_bench_report
from bench.report.progress import note
from bench.report.rounds import BenchRow
from bench.report.tables import as_json, table
from bench.result_files import result_path, write_aside
from bench.servers.java import need_spark
from bench.servers.rollcall import command
from bench.servers.server import StartError
from bench.servers.usage import SampledUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

OK, FAILURE, BAD_INPUT = 0, 1, 2
ROWS: Final = 10_000_000
ROWS_MAX: Final = 1_000_000_000
RUN_ID: Final = "made"
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
            measured = _measure(directory, asked.memory)
    except (StartError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return FAILURE
    except Interrupted as stop:
        print(f"rollcall: The benchmark was {stop}.", file=sys.stderr)
        return stop.exit_code
    finally:
        if asked.keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    rows = [_row(measured)]
    print(table(rows), flush=True)
    missed = _missed(measured.verdict)
    try:
        if asked.json:
            write_aside(asked.json, as_json(CASE, rows))
        write_bench_report(asked.report, CASE, ABOUT, rows, began_s, broken=missed)
    except OSError as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return FAILURE
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
    from bench.histories.store import write_run
    from bench.load.spark import local_session

    shape = HistoryShape.of_rows(rows)
    session = local_session({"spark.driver.memory": MEMORY})
    directory.mkdir(parents=True, exist_ok=True)
    write_run(with_faults(made(session, shape), shape), shape.facts(RUN_ID), directory)
    session.stop()


def _measure(directory: Path, heap: str) -> CheckMeasure:
    """Run the checks in a process of its own and watch its memory, with that of its children."""
    note("Checking it ...")
    out = directory / "verdict.json"
    words = ["check", str(directory), "--memory", heap, "--json", str(out)]
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
        verdict=json.loads(out.read_text())["runs"][0],
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
    from bench.histories.planted import group_of

    found = {
        name: {example["group_id"] for example in check["examples"]}
        for name, check in verdict["checks"].items()
    }
    return [
        f"{name} should have found a fault in {group_of(name)} only, and found"
        f" {', '.join(sorted(groups)) or 'nothing'}."
        for name, groups in found.items()
        if groups != {group_of(name)}
    ]


def _rows(text: str) -> int:
    rows = int(text)
    if not 1 <= rows <= ROWS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {ROWS_MAX}")
    return rows


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
        "--keep", type=Path, metavar="DIR", help="make the history in DIR, or use the one there"
    )
    parser.add_argument(
        "--json", type=result_path, metavar="FILE", help="write the figures to FILE"
    )
    add_report_option(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
