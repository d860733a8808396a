"""``rollcall check DIR``: check recorded histories of members with Spark, and print a verdict.

A history (``docs/history.md``) is what the members of a run lived through, as rows in Parquet
files. The exit code is 1 if a promise was broken or a limit exceeded.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.errors import BadInputError
from bench.histories.session import MEMORY, check_run, check_settings
from bench.interruption import Interrupted, interruptible, quiet_if_unread
from bench.load.spark import LOCAL
from bench.pages.files import report_path, write_reports
from bench.rehearsals.masters import master
from bench.result_files import result_path, write_aside
from bench.servers.java import need_spark
from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.histories.verdict import HistoryVerdict
    from bench.pages.document import ReportDocument

OK, FAILURE, BAD_INPUT = 0, 1, 2

MEMORY_TEXT: Final = re.compile(r"[1-9]\d{0,5}[mg]")


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the runs of one directory; return the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        need_spark()
        if asked.master is not None:
            asked.master.check(tasks=1)
        with interruptible():
            verdicts = _verdicts(asked)
        if not verdicts:
            return BAD_INPUT
        with quiet_if_unread():
            print("\n\n".join(verdict.text() for verdict in verdicts), flush=True)
        if asked.json:
            _write(asked.json, verdicts)
        write_reports(asked.report, lambda: _report(verdicts))
    except Interrupted as stop:
        print(f"rollcall: The check was {stop}.", file=sys.stderr)
        return stop.exit_code
    except BadInputError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return BAD_INPUT
    except (StartError, OSError) as error:
        print(f"rollcall: The check could not be completed: {error}", file=sys.stderr)
        return BAD_INPUT
    return OK if all(verdict.is_clean for verdict in verdicts) else FAILURE


def _verdicts(asked: argparse.Namespace) -> list[HistoryVerdict]:
    """Judge each run; say in one sentence what keeps that from being done, and return nothing."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from bench.histories.store import HistoryError, first_line, runs_in
    from bench.histories.verdict import CostLimit
    from bench.load.spark import start_session

    try:
        limits = [CostLimit.parse(text) for text in asked.fail_on]
        runs = runs_in(asked.directory)
        largest = max(map(_rows, runs))  # a mistake is told before Spark starts
        session = start_session(_settings(asked, largest))
        try:
            return [check_run(session, run, limits) for run in runs]
        finally:
            session.stop()
    except HistoryError as error:
        print(f"rollcall: {error}", file=sys.stderr)
    except (PySparkException, Py4JError) as error:
        why = first_line(error)
        print(f"rollcall: Spark cannot check {asked.directory}: {why}", file=sys.stderr)
    return []


def _report(verdicts: Sequence[HistoryVerdict]) -> ReportDocument:
    from bench.pages.checked import check_report

    return check_report(verdicts)


def _rows(run: Path) -> int:
    from bench.histories.store import read_facts

    return sum(read_facts(run).rows.values())


def _settings(asked: argparse.Namespace, rows: int) -> Mapping[str, str]:
    where = LOCAL if asked.master is None else asked.master.session_settings()
    return {**where, **check_settings(rows, asked.memory)}


def _write(path: Path, verdicts: Sequence[HistoryVerdict]) -> None:
    document = {
        "clean": all(verdict.is_clean for verdict in verdicts),
        "runs": [verdict.document() for verdict in verdicts],
    }
    write_aside(path, json.dumps(document, indent=2) + "\n")


def memory(text: str) -> str:
    """Return an amount of memory in Java's words; argparse tells what is none."""
    if not MEMORY_TEXT.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no amount such as 2g or 1500m")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall check",
        description="Check the histories of members that runs recorded, and what the runs cost.",
    )
    parser.add_argument(
        "directory", metavar="DIR", type=Path, help="a directory with runs, or one run"
    )
    parser.add_argument(
        "--fail-on", action="append", default=[], metavar="COST>NUMBER",
        help="also fail if a cost exceeds a number: 'survivor-revocations>0'; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--json", type=result_path, metavar="FILE", help="write the verdicts to FILE"
    )
    parser.add_argument(
        "--report", type=report_path, action="append", default=[], metavar="FILE",
        help="write a page about the runs to FILE.html, its tables to FILE.md, or its data to"
        " FILE.json",
    )  # fmt: skip
    parser.add_argument(
        "--memory", type=memory, default=MEMORY, help="Spark's heap (default: %(default)s)"
    )
    parser.add_argument(
        "--master", type=master, metavar="URL",
        help="Spark's master (default: this machine, one task per core)",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
