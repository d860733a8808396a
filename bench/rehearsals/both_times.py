"""``python -m bench.rehearsals.both_times``: every scenario in real and in virtual time, compared.

Each scenario that comes with the program is rehearsed by ``rollcall rehearse``, with all its
variants, and then simulated; what each run cost is a row of the table in ``docs/scenarios.md``.
Verdicts are kept in a directory (``--results``), so that an interrupted comparison goes on where it
was, and one scenario can be run again: delete its file. What has no verdict of a real run keeps the
rows that the table has of it. Each row has the date and the commit of its real run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from bench.checkout_state import commit_of
from bench.paths import TOP
from bench.rehearsals.agreement import disagreements
from bench.rehearsals.results import read_result
from bench.result_files import write_aside
from bench.scenarios.files import found_variants, names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PAGE: Final = TOP / "docs" / "scenarios.md"
BEGIN, END = "<!-- both times: begin -->", "<!-- both times: end -->"
HEAD: Final = (
    "scenario", "variant", "application", "rebalances", "unavailable member-s", "clean", "real run",
)  # fmt: skip
MEASURED: Final = "measured"
"""The key of a verdict's document with the date and the commit of its run."""

NO_RUN: Final = "-"
_DATED: Final = re.compile(r"(\d{4}-\d{2}-\d{2}), \S+", re.ASCII)
OVER_SPARK: Final = {"fifty-thousand": 3, "mass-restart-ten-thousand": 2, "ten-thousand": 2}
"""Scenarios whose members need tasks of Spark."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what has no result yet, and write the table; return 1 if a run was not completed."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.both_times",
        description="Rehearse every scenario in real and in virtual time, and compare.",
    )
    parser.add_argument("--results", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only-table", action="store_true", help="run nothing")
    parser.add_argument(
        "--only", nargs="+", choices=names(), default=names(), metavar="NAME", help="run only these"
    )
    asked = parser.parse_args(arguments)
    asked.results.mkdir(parents=True, exist_ok=True)
    if not asked.only_table:
        for name in asked.only:
            _run(name, asked.results / f"{name}.json", [*_spark(name)])
            _run(name, asked.results / f"{name}.simulated.json", ["--simulate"])
    found = {
        name: tuple(
            read_result(asked.results / f"{name}{kind}.json") for kind in ("", ".simulated")
        )
        for name in names()
    }
    page = PAGE.read_text("utf-8")
    write_aside(PAGE, with_table(page, table(found, rows_of(page))))
    for sentence in differences(found):
        print(sentence)
    return 0 if all(found[name][0] is not None for name in asked.only) else 1


def _spark(name: str) -> Iterator[str]:
    if name in OVER_SPARK:
        yield from ("--spark", str(OVER_SPARK[name]))


def _run(name: str, result: Path, options: Sequence[str]) -> None:
    if read_result(result) is not None:
        return
    print(f"--- {name} {' '.join(options)}", flush=True)
    rehearse = [sys.executable, "-m", "rollcall", "rehearse", name, *options]
    measured = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": _commit()}
    subprocess.run([*rehearse, "--json", str(result)], check=False)
    if document := read_result(result):
        write_aside(result, json.dumps({**document, MEASURED: measured}, indent=2) + "\n")


def _commit() -> str:
    """Return the commit that runs here; the page, written after each run, is no change of it."""
    commit, is_changed = commit_of(TOP, (PAGE,))
    return f"{commit}-dirty" if is_changed else commit


def differences(
    found: Mapping[str, Sequence[Mapping[str, Any] | None]],
) -> Iterator[str]:
    """Say where the real and the simulated run of a group disagree."""
    for name, documents in found.items():
        real, simulated = map(runs_of, documents)
        for variant, scenario in found_variants(name).items():
            ran, planned = (
                each.get(variant, {"groups": {}})["groups"] for each in (real, simulated)
            )
            for group in scenario.groups:
                if group.name in ran and group.name in planned:
                    said = disagreements(name, group, ran[group.name], planned[group.name])
                    yield from (f"{name}, {variant}: {each}" for each in said)


def table(
    found: Mapping[str, Sequence[Mapping[str, Any] | None]],
    before: Mapping[str, Sequence[tuple[str, ...]]] = MappingProxyType({}),
) -> str:
    """Return the rows; for each scenario are given a real and a simulated run's document.

    Without a real run, that of a row in ``before`` is kept; with neither, all of them.
    """
    rows: list[tuple[str, ...]] = [HEAD, ("---", "---", "---", "--:", "--:", "---", "---")]
    for name, documents in found.items():
        kept = [runs_of(document) for document in documents]
        variants = list(dict.fromkeys(variant for runs in kept for variant in runs))
        if not variants:
            rows += before.get(name) or [(f"`{name}`", "", "", "not run", "", "", NO_RUN)]
        old = {row[1:3]: row for row in before.get(name, ()) if documents[0] is None}
        for variant in variants:
            pair = [runs.get(variant) for runs in kept]
            clean = [NO_RUN if each is None else "yes" if each["clean"] else "no" for each in pair]
            for group, several in _applications(pair).items():
                which = ("" if len(variants) == 1 else variant, group)
                real, simulated = (
                    [*_figures(each), word] for each, word in zip(several, clean, strict=True)
                )
                when = _when(documents[0])
                if which in old:
                    *cells, when = old[which][3:]
                    real = [cell.split(" / ")[0] for cell in cells]
                rows.append((f"`{name}`", *which, *map(_both, real, simulated), when))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _when(document: Mapping[str, Any] | None) -> str:
    """Return the date and the commit of a real run; "" if they were not kept."""
    if document is None:
        return NO_RUN
    measured = document.get(MEASURED)
    return f"{measured['date']}, {measured['commit']}" if measured else ""


def ages(rows: str) -> str:
    """Say how old the real runs of a table are, and which have no date.

    A run of which no date was kept is older than all others.
    """
    cells = [line.strip("|").split("|")[-1].strip() for line in rows.splitlines()[2:]]
    dates = sorted({found[1] for cell in cells if (found := _DATED.fullmatch(cell))})
    said = []
    if len(dates) == 1:
        said.append(f"All real runs with a date are of {dates[0]}.")
    elif dates:
        said.append(f"The oldest real run with a date is of {dates[0]}, the newest of {dates[-1]}.")
    if undated := cells.count(""):
        said.append(f"{undated} rows without a date were measured before dates were kept.")
    if missing := cells.count(NO_RUN):
        said.append(f"{missing} rows ({NO_RUN}) are of virtual time only.")
    return " ".join(said)


def runs_of(document: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """Return the runs of a verdict's document on a cluster of ours, by variant."""
    if document is None:
        return {}
    runs = document.get("runs", [document])
    return {each["variant"]: each for each in runs if each["run"] in ("real", "simulated")}


def _applications(
    pair: Sequence[Mapping[str, Any] | None],
) -> dict[str, list[list[Mapping[str, Any]]]]:
    """Return what the groups of each application paid in each run; copies are together."""
    found: dict[str, list[list[Mapping[str, Any]]]] = {}
    for number, run in enumerate(pair):
        for name, group in (run or {"groups": {}})["groups"].items():
            stem = name.rstrip("0123456789")
            application = stem.removesuffix("-") if stem.endswith("-") else name
            found.setdefault(application, [[], []])[number].append(group)
    return found


def _figures(groups: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    if not groups:
        return NO_RUN, NO_RUN
    rebalances = sum(each["rebalances"] for each in groups)
    unavailable_ms = sum(each["unavailable_member_ms"] for each in groups)
    return str(rebalances), f"{unavailable_ms / 1000:.1f}"


def _both(real: str, simulated: str) -> str:
    """Write the words of both runs; one if both say the same."""
    return real if real == simulated else f"{real} / {simulated}"


def rows_of(page: str) -> dict[str, list[tuple[str, ...]]]:
    """Return the rows that a page has of each scenario."""
    found: dict[str, list[tuple[str, ...]]] = {}
    lines = page.split(BEGIN, 1)[1].split(END, 1)[0].strip().splitlines()
    for line in [each for each in lines if each.startswith("|")][2:]:
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        cells += ("",) * (len(HEAD) - len(cells))  # of a table without dates
        found.setdefault(cells[0].strip("`"), []).append(cells)
    return found


def with_table(page: str, rows: str) -> str:
    """Return the page with these rows between the marks, and above them how old they are."""
    before, rest = page.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    said = ages(rows)
    return "\n".join([f"{before}{BEGIN}", *([said, ""] if said else []), rows, f"{END}{after}"])


if __name__ == "__main__":
    sys.exit(main())
