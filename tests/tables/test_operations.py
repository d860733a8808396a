"""Each command of docs/operations.md has a test that runs it, and the test has its words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from ray.scripts.scripts import start as ray_start

from tests.tables.operations import CLOSED, ROOT, RUNS, Run, commands

NAMED_BY_THEIR_CLASSES = ("rollcall", "kafka-features.sh", "kafka-dump-log.sh")
"""Programs whose name is not a word of the tests: helpers add it."""


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def found(place: str) -> ast.AST:
    """Return the function or value at ``file::name`` or ``file::Class.name``, or a text file."""
    file, _, path = place.partition("::")
    if not path:
        return ast.Constant((ROOT / file).read_text())
    within: ast.AST = tree(file)
    for name in path.split("."):
        body = getattr(within, "body", [])
        within = next((node for node in body if name in names(node)), ast.Pass())
    assert not isinstance(within, ast.Pass), f"{place} is not there"
    return within


def names(node: ast.AST) -> list[str]:
    """Return what a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def words(node: ast.AST) -> Iterator[str]:
    """Yield the words of all texts in a place, also those before ``=``."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            for word in each.value.split():
                yield from (word, word.partition("=")[0])


def used(node: ast.AST) -> Iterator[str]:
    """Yield the names that a place uses: of variables, attributes, fixtures and modules."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.arg):
            yield each.arg
        elif isinstance(each, ast.Constant):
            yield str(each.value)


def known_as(place: str) -> set[str]:
    """Return the names under which others may use a place."""
    file, _, path = place.partition("::")
    name = path.removesuffix(".__init__").rpartition(".")[2]
    return {name or Path(file).stem, file.removesuffix(".py").replace("/", ".")}


def wanted(command: str, run: Run) -> set[str]:
    """Return the words that the places of a command must have."""
    program, *others = command.split()
    if run.words:
        return set(run.words)
    if program in NAMED_BY_THEIR_CLASSES or program == "export":
        return set(others)
    return {program, *others}


def test_every_command_of_the_page_has_a_test_and_every_row_is_on_the_page() -> None:
    on_the_page = set(commands()) - set(CLOSED)
    assert on_the_page - set(RUNS) == set(), "these commands of the page have no row"
    assert set(RUNS) - on_the_page == set(), "these rows are no longer on the page"


@pytest.mark.parametrize(("command", "run"), RUNS.items(), ids=RUNS)
def test_the_test_of_a_command_has_its_words(command: str, run: Run) -> None:
    assert Path(run.test.partition("::")[0]).name.startswith("test_")
    assert run.test.partition("::")[2].startswith("test_")
    places = [found(place) for place in (run.test, *run.through)]
    there = {word for place in places for word in words(place)}
    assert wanted(command, run) <= there, f"{run.test} does not run {command}"


@pytest.mark.parametrize(("command", "run"), RUNS.items(), ids=RUNS)
def test_the_helpers_of_a_row_are_used_by_its_test(command: str, run: Run) -> None:
    places = {place: found(place) for place in (run.test, *run.through)}
    for helper in run.through:
        others = {word for place in places if place != helper for word in used(places[place])}
        assert others & known_as(helper), f"{command}: nothing in its row uses {helper}"


def test_what_the_page_keeps_closed_are_options_of_ray() -> None:
    known = {option for parameter in ray_start.params for option in parameter.opts}
    assert set(CLOSED) <= known & set(commands())
