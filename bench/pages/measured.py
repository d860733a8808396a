"""Make the document of a page from the rows of a benchmark: each server is a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.pages.document import Figure, ReportDocument, RunReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report.rounds import BenchRow

HOW: Final = "benchmark"


def bench_report(name: str, about: str, rows: Sequence[BenchRow], took_ms: int) -> ReportDocument:
    """Return the document of one benchmark: medians over the rounds, servers side by side."""
    servers = dict.fromkeys(row.server for row in rows)
    return ReportDocument(
        title=name,
        about=about,
        is_clean=True,
        verdict="Medians over the rounds; a benchmark has no limits.",
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
