"""Make the document of a page from the rows of a benchmark: each server is a run."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Final

from bench.pages.document import Figure, ReportDocument, RunReport
from bench.pages.files import report_path, write_reports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.report.rounds import BenchRow

HOW: Final = "benchmark"


def add_report_option(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark write its figures as a page; how often it is given is not limited."""
    parser.add_argument(
        "--report", type=report_path, action="append", default=[], metavar="FILE",
        help="write a page with the medians to FILE.html, its tables to FILE.md, or its data to"
        " FILE.json",
    )  # fmt: skip


def write_bench_report(  # noqa: PLR0913 - what a document is made of
    paths: Sequence[Path], name: str, about: str, rows: Sequence[BenchRow], began_s: float,
    *, broken: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write the figures of a benchmark that began then (``time.monotonic``); raises OSError."""
    took_ms = int((time.monotonic() - began_s) * 1000)
    write_reports(paths, lambda: bench_report(name, about, rows, took_ms, broken))


def bench_report(
    name: str, about: str, rows: Sequence[BenchRow], took_ms: int, broken: Sequence[str] = ()
) -> ReportDocument:
    """Return the document of one benchmark: medians over the rounds, servers side by side.

    ``broken`` has a sentence for each limit that was not kept.
    """
    servers = dict.fromkeys(row.server for row in rows)
    return ReportDocument(
        title=name,
        about=about,
        is_clean=not broken,
        verdict=" ".join(broken) or "Medians over the rounds; no limit was exceeded.",
        program="Rollcall",
        made="",
        runs=[_run(server, rows, took_ms) for server in servers],
    )


def _run(server: str, rows: Sequence[BenchRow], took_ms: int) -> RunReport:
    own = [row for row in rows if row.server == server]
    return RunReport(
        name=server,
        how=HOW,
        is_clean=True,
        verdict=f"{max(len(row.rounds) for row in own)} rounds.",
        duration_ms=took_ms,
        changed_ms=0,
        figures=[
            Figure(name=f"{row.case}: {name}", value=value)
            for row in own
            for name, value in row.median().items()
        ],
    )
