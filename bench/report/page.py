"""Makes ``docs/performance.md`` of the newest file of results: ``python -m bench.report.page``.

No figure is written by hand. Each stands with the commit and the command that it is from, beside
Apache Kafka's of the same run where there is one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from bench.paths import PAGE, RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

OURS, PEER = "rollcall", "kafka"

ABOUT: Final[Mapping[str, str]] = {
    "heartbeats": "Heartbeats of classic groups",
    "commits": "Offset commits on one coordinator",
    "replicated-commits": "Offset commits on the disks of a majority",
    "joins": "A classic group joins; all its static members restart",
    "consumer-heartbeats": "Heartbeats of consumer groups",
    "consumer-joins": "Consumer groups join and settle",
    "storm": "A restless consumer group, and an innocent one beside it",
    "storm-50": "The same with 50 partitions for each of 1,000 topics",
    "failover": "A leader is killed",
    "reload": "Everything is killed and read from the disk again",
    "memory": "Resident memory of 10,000 members",
    "assignors": "Assignors: the time of one assignment",
    "hostile": "A storm of bytes, and an innocent group beside it",
}

HIDDEN: Final = frozenset(
    {
        "requests", "beside_cpu_s", "generator_cpu_s", "joins_per_member",
        "generation",
    }
)  # fmt: skip
"""Figures that are kept in the file and are no headline."""

UNITS: Final[Mapping[str, str]] = {
    "per_s": "1/s", "per_server_cpu_s": "1/s of CPU", "cpu_s": "s of CPU", "ms": "ms", "s": "s",
    "us": "µs", "mib": "MiB", "bytes": "bytes",
}  # fmt: skip
"""The unit that the end of a figure's name tells, the longest end first."""

INTRO: Final = """# Performance

<!-- Made by `python -m bench.report.page` of bench/results/{file}: do not edit. -->

Measured on {date} with {cores} cores and {memory_gib} GiB of memory ({system},
Python {python}). Rollcall and Apache Kafka run on the same machine in the same run, one after the
other or in turns; the load generator shares the cores with them. Each figure is the median of its
rounds. What a benchmark does is told at the top of its module in `bench/`; `rollcall bench --list`
names them.
"""


def newest(results: Path = RESULTS) -> Path | None:
    """Return the newest file of results; their names are dates."""
    return max(results.glob("*.json"), default=None)


def read(path: Path) -> dict[str, Any]:
    """Read a file of results."""
    results: dict[str, Any] = json.loads(path.read_text())
    return results


def page(results: Mapping[str, Any]) -> str:
    """Return the page of a file of results."""
    parts = results["parts"]
    intro = INTRO.format(**results["machine"], date=results["date"], file=f"{results['date']}.json")
    return "\n".join([intro, *(line for name in parts for line in _part(name, parts[name]))])


def _part(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    rows = part["rows"]
    has_peer = any(row["server"] == PEER for row in rows)
    columns = ["Case", "Figure", "Unit", "Rollcall", *(["Kafka", "Ratio"] if has_peer else [])]
    yield f"## {ABOUT[name]}"
    yield ""
    yield f"`{part['command']}`, commit `{part['commit']}`, {part['seconds']} s in all."
    yield ""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * 3}{'---:|' * (len(columns) - 3)}"
    for case in dict.fromkeys(row["case"] for row in rows):
        medians = {row["server"]: row["median"] for row in rows if row["case"] == case}
        for figure in dict.fromkeys(name for each in medians.values() for name in each):
            if figure in HIDDEN:
                continue
            ours, theirs = (medians.get(server, {}).get(figure) for server in (OURS, PEER))
            words, unit = _named(figure)
            cells = [case, words, unit, _number(ours)]
            if has_peer:
                cells += [_number(theirs), f"{ours / theirs:.2f}" if ours and theirs else ""]
            yield f"| {' | '.join(cells)} |"
    yield ""


def _named(figure: str) -> tuple[str, str]:
    """Take a figure's name apart: in words, and its unit."""
    for end, unit in sorted(UNITS.items(), key=lambda each: -len(each[0])):
        if figure == end or figure.endswith(f"_{end}"):
            words = figure.removesuffix(end).strip("_").replace("_", " ")
            return words, unit
    return figure.replace("_", " "), ""


def _number(value: float | None) -> str:
    if value is None or value != value:  # noqa: PLR0124 - not a number
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def main() -> int:
    """Write the page."""
    results = newest()
    if results is None:
        print("There are no results: run rollcall bench all.")
        return 1
    PAGE.write_text(page(read(results)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
