"""Each promise is broken by two planted bugs at least, and each checker finds two."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.simulation.planted.bugs import PLANTED
from tests.simulation.planted.checkers import FOUND_BY
from tests.simulation.planted.promises import BROKEN_BY

ROOT = Path(__file__).parent.parent.parent
LEAST = 2
ENOUGH = 40
NO_PROMISES = {"Limits"}
"""What the page says in bold of what is not promised."""

TABLES = {"promise": BROKEN_BY, "checker": FOUND_BY}
ROWS = [(each, name) for each, table in TABLES.items() for name in table]


def promised() -> Iterator[str]:
    """Read the promises: rows of the rules and faults, paragraphs, and what members get."""
    page = (ROOT / "docs" / "replication.md").read_text()
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    for title in ("The rules", "What a fault does"):
        rows = re.findall(r"^\| ([^|]+?) \|", sections[title], re.MULTILINE)
        yield from rows[1:]
        yield from (
            each.rstrip(".") for each in re.findall(r"^\*\*(.+?)\*\*", sections[title], re.M)
        )
    flowing = " ".join(sections["The simulator"].split())
    (members,) = re.findall(r"What members are promised depends on the type: (.+?)\. ", flowing)
    yield from members.split("; ")


def checkers() -> Iterator[str]:
    """Find the classes and functions of the simulator that raise a Violation."""
    for path in sorted((ROOT / "failover" / "simulation").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and any(
                isinstance(each, ast.Call)
                and isinstance(each.func, ast.Name)
                and each.func.id == "Violation"
                for each in ast.walk(node)
            ):
                yield node.name


def test_each_promise_has_a_row() -> None:
    found = list(promised())
    assert len(found) == len(set(found))
    assert set(BROKEN_BY) | NO_PROMISES == set(found)


def test_each_checker_has_a_row() -> None:
    found = list(checkers())
    assert len(found) == len(set(found))
    assert set(FOUND_BY) == set(found)


@pytest.mark.parametrize(("table", "name"), ROWS)
def test_a_row_names_two_planted_bugs_at_least(table: str, name: str) -> None:
    bugs = TABLES[table][name].split()
    assert len(bugs) == len(set(bugs)) >= LEAST
    assert set(bugs) <= set(PLANTED)


def test_each_planted_bug_is_in_a_row() -> None:
    tables: tuple[Mapping[str, str], ...] = (BROKEN_BY, FOUND_BY)
    named = {bug for table in tables for row in table.values() for bug in row.split()}
    assert set(PLANTED) - named == set()


def test_there_are_enough_planted_bugs() -> None:
    assert len(PLANTED) >= ENOUGH
