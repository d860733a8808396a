"""One table for people and one JSON for tools, for the rows of any benchmark."""

from __future__ import annotations

import json
import os
import platform
from typing import TYPE_CHECKING, Any, Final

from failover.columns import aligned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.report.limits import CheckedLimit
    from bench.report.rounds import BenchRow

OURS: Final = "rollcall"
PEER: Final = "kafka"


def table(rows: Sequence[BenchRow]) -> str:
    """Return the medians, a line for each case and figure; with a peer, our ratio to it."""
    servers = list(dict.fromkeys(row.server for row in rows))
    lines = [["case", "figure", *servers, *([f"{OURS}/{PEER}"] if _is_contest(servers) else [])]]
    for case in dict.fromkeys(row.case for row in rows):
        medians = {row.server: row.median() for row in rows if row.case == case}
        for name in next(iter(medians.values())):
            values = [medians[server].get(name) for server in servers]
            lines.append([case, name, *map(_number, values), *_ratio(medians, name)])
    return aligned(lines, right=range(2, len(lines[0])))


def document(
    benchmark: str, rows: Iterable[BenchRow], limits: Sequence[CheckedLimit] = ()
) -> dict[str, Any]:
    """Return all measurements, round by round, with a description of the machine.

    With limits, it says of each whether it was kept.
    """
    return {
        "benchmark": benchmark,
        "machine": {
            "cpus": os.cpu_count(),
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "rows": [
            {
                "case": row.case,
                "server": row.server,
                "median": row.median(),
                "rounds": list(row.rounds),
            }
            for row in rows
        ],
        **({"limits": [each.document() for each in limits]} if limits else {}),
    }


def as_json(benchmark: str, rows: Iterable[BenchRow], limits: Sequence[CheckedLimit] = ()) -> str:
    """Return :func:`document` as text."""
    return json.dumps(document(benchmark, rows, limits), indent=2) + "\n"


def _is_contest(servers: Sequence[str]) -> bool:
    return OURS in servers and PEER in servers


def _ratio(medians: dict[str, dict[str, float]], name: str) -> list[str]:
    if not _is_contest(list(medians)):
        return []
    ours, theirs = medians[OURS].get(name), medians[PEER].get(name)
    return [f"{ours / theirs:.2f}" if ours is not None and theirs else "-"]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
