"""``python -m bench.rehearsals.beside_kafka``: scenarios on Rollcall and on Kafka, for README.

Five scenarios are rehearsed with ``--kafka``; what the members of each group paid on both is a row
of the table in ``README.md``. Verdicts are kept in a directory (``--results``): what has one is not
run again. A scenario without a result has no row.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.paths import TOP
from bench.rehearsals.results import read_result
from bench.result_files import write_aside
from bench.scenarios import files as scenarios

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PAGE: Final = TOP / "README.md"
BEGIN, END = "<!-- beside kafka: begin -->", "<!-- beside kafka: end -->"
COMMANDS: Final[Mapping[str, str]] = {
    "rolling-deploy": "rollcall rehearse rolling-deploy --kafka",
    "kafka-static-bounce": "rollcall rehearse kafka-static-bounce --variant base --kafka",
    "bad-application": "rollcall rehearse bad-application --kafka",
    "mass-restart": "rollcall rehearse mass-restart --kafka",
    "leader-loss-in-deploy": "rollcall rehearse leader-loss-in-deploy --kafka",
}
"""What is rehearsed, and how."""
HEAD: Final = (
    "Rehearsed by", "Group", "Members", "Rebalances", "Unavailable member-seconds",
    "Longest without an owner",
)  # fmt: skip
NO_RUN: Final = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what has no result yet, and write the table; return 1 if a result is missing."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.beside_kafka",
        description="Rehearse scenarios on Rollcall and on Apache Kafka, for README.",
    )
    parser.add_argument("--results", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only-table", action="store_true", help="run nothing")
    asked = parser.parse_args(arguments)
    asked.results.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, command in COMMANDS.items():
        result = asked.results / f"{name}.kafka.json"
        if read_result(result) is None and not asked.only_table:
            print(f"--- {command}", flush=True)
            words = [sys.executable, "-m", *command.split(), "--json", str(result)]
            subprocess.run(words, check=False)
        if (document := read_result(result)) is not None:
            found[name] = document
    page = PAGE.read_text("utf-8")
    before, rest = page.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    write_aside(PAGE, f"{before}{BEGIN}\n{table(found)}\n{END}{after}")
    return 0 if len(found) == len(COMMANDS) else 1


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a row for each group of each verdict: our figure, then Kafka's."""
    rows = [HEAD, ("---", "---", "--:", "--:", "--:", "--:")]
    for name, document in found.items():
        groups = {run["run"]: run["groups"] for run in document["runs"]}
        members = {each.name: each.replicas for each in scenarios.found(name).groups}
        for number, group in enumerate(groups["real"]):
            paid = [groups[where].get(group) for where in ("real", "kafka") if where in groups]
            rows.append(
                (
                    "" if number else f"`{COMMANDS[name]}`",
                    group,
                    f"{members[group]:,}",
                    _beside([str(each["rebalances"]) for each in paid]),
                    _beside([f"{each['unavailable_member_ms'] / 1000:.1f}" for each in paid]),
                    _beside([f"{each['unowned_ms'] / 1000:.1f} s" for each in paid]),
                )
            )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _beside(words: Sequence[str]) -> str:
    return " / ".join([*words, NO_RUN][:2])


if __name__ == "__main__":
    sys.exit(main())
