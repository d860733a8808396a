"""``python -m bench.host_drills.all_drills``: run every drill on hosts, one after the other.

Each drill runs on three and on five hosts, in a process of its own, as ``rollcall drill`` does.
What it said and its verdict stay in a directory. Runs that are clean there are not repeated, so
that an interrupted command can be continued; ``all.json`` and ``all.md`` have all that is there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.host_drills.table import HOST_COUNTS, HOST_DRILLS
from bench.interruption import Interrupted, interruptible
from bench.result_files import write_aside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OK, FAILURE = 0, 1
RUN_S: Final = 900.0
"""How long one drill may take; those that upgrade hosts take four minutes on two processors."""

STOP_S: Final = 60.0
COLUMNS: Final[Mapping[str, str]] = {
    "Two owners": "partitions with two owners",
    "Lost commits": "lost writes",
    "Rebalances": "rebalances",
    "Gap p50 ms": "without a heartbeat, p50 ms",
    "p99": "without a heartbeat, p99 ms",
    "max": "without a heartbeat, max ms",
}
"""Columns of the table, and the rows of a verdict that they show."""


@dataclass(frozen=True, slots=True)
class DrillOnHosts:
    """One drill on so many hosts, and where its results are."""

    drill: str
    hosts: int
    directory: Path

    @property
    def file(self) -> Path:
        """Where its verdict is."""
        return self.directory / f"{self.drill}-{self.hosts}.json"

    def verdict(self) -> dict[str, Any] | None:
        """Return its verdict; None: there is none."""
        try:
            found: dict[str, Any] = json.loads(self.file.read_text())
        except FileNotFoundError:
            return None
        return found

    def run(self) -> None:
        """Run it; without a verdict in the end its log says why."""
        self.file.unlink(missing_ok=True)
        words = [self.drill, "--hosts", str(self.hosts), "--json", str(self.file)]
        with self.file.with_suffix(".log").open("w") as log:
            running = subprocess.Popen(
                [sys.executable, "-m", "rollcall", "drill", *words], stdout=log, stderr=log
            )
            try:
                running.wait(RUN_S)
            except subprocess.TimeoutExpired:
                log.write(f"It was stopped after {RUN_S:g} s.\n")
            finally:
                _end(running)

    def outcome(self) -> str:
        """Return in a word or a sentence how it ended."""
        if (found := self.verdict()) is not None:
            return "clean" if found["clean"] else "not clean"
        log = self.file.with_suffix(".log")
        said = log.read_text().split("\n") if log.exists() else []
        return next((line for line in reversed(said) if line), "not run")


def runs_of(
    drills: Sequence[str], counts: Sequence[int], directory: Path
) -> Sequence[DrillOnHosts]:
    """Return the runs of drills, each on every number of hosts that it can have."""
    return [
        DrillOnHosts(name, hosts, directory)
        for name in drills
        for hosts in counts
        if hosts >= HOST_DRILLS[name].hosts_min
    ]


def document(runs: Sequence[DrillOnHosts]) -> list[dict[str, Any]]:
    """Return all results, for tools."""
    return [
        {"hosts": each.hosts, **(each.verdict() or {"drill": each.drill, "clean": False})}
        for each in runs
    ]


def markdown(runs: Sequence[DrillOnHosts]) -> str:
    """Return all results as a table for a page of documentation."""
    heads = ["Drill", "Hosts", "Verdict", *COLUMNS]
    lines = [heads, ["---"] * 3 + ["---:"] * len(COLUMNS)]
    for each in runs:
        rows = {row["name"]: row["value"] for row in (each.verdict() or {}).get("rows", ())}
        cells = [_shown(rows.get(name)) for name in COLUMNS.values()]
        outcome = each.outcome().replace("|", "\\|")
        lines.append([f"`{each.drill}`", str(each.hosts), outcome, *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what has no clean verdict yet; return the exit code: 1 if a verdict is not clean."""
    asked = _parser().parse_args(arguments)
    asked.directory.mkdir(parents=True, exist_ok=True)
    runs = runs_of(asked.drills or [*HOST_DRILLS], asked.hosts, asked.directory)
    try:
        with interruptible():
            for number, each in enumerate([] if asked.table else runs, 1):
                if each.outcome() != "clean":
                    each.run()
                where = f"{number} of {len(runs)}: {each.drill} on {each.hosts} hosts"
                print(f"{where}: {each.outcome()}", flush=True)
    except Interrupted as stop:
        print(f"rollcall: The drills were {stop}. Run the command again to go on.", file=sys.stderr)
        return stop.exit_code
    write_aside(asked.directory / "all.json", json.dumps(document(runs), indent=2) + "\n")
    write_aside(asked.directory / "all.md", table := markdown(runs))
    print(table, end="")
    return OK if all(each.outcome() == "clean" for each in runs) else FAILURE


def _end(running: subprocess.Popen[bytes]) -> None:
    """End a drill that runs: its hosts end with it."""
    if running.poll() is not None:
        return
    running.terminate()
    try:
        running.wait(STOP_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"  # noqa: RUF001 - a dash where nothing is


def _drill(text: str) -> str:
    if text not in HOST_DRILLS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(HOST_DRILLS)}")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.all_drills",
        description="Run every drill on hosts, one after the other, and write a table.",
    )
    parser.add_argument(
        "drills", nargs="*", type=_drill, metavar="DRILL",
        help="the drills to run (default: all; see rollcall drill --list)",
    )  # fmt: skip
    parser.add_argument(
        "--hosts", type=int, nargs="+", choices=HOST_COUNTS, default=HOST_COUNTS,
        help="on how many hosts (default: each of these)",
    )  # fmt: skip
    parser.add_argument(
        "--directory", type=Path, required=True, metavar="DIR",
        help="where verdicts, logs, all.json and all.md are; clean drills there are not run again",
    )  # fmt: skip
    parser.add_argument(
        "--table", action="store_true", help="run nothing: make the table of what is there"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
