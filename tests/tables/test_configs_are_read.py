"""Every config is read by some code, or its row says that only Kafka needs it."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from protocol.config import CONFIGS, Scope
from protocol.config_rows import ConfigRow

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("protocol", "storage", "failover", "actors")
"""Where a config has its effect; benchmarks only set some."""

ROWS = [(scope, row) for scope, table in CONFIGS.items() for row in table.values()]


def sources() -> Iterator[ast.Module]:
    """Parse every module that may read a config.

    Not the tables, not what simulates, and not what configures a consumer of somebody's Kafka.
    """
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            is_table = path.name.startswith("config") and path.is_relative_to(ROOT / "protocol")
            if not is_table and not {"simulation", "watching"} & {*path.parts}:
                yield ast.parse(path.read_text(), str(path))


def strings(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Return the strings of the code, each with the constant that is called so, if it is one.

    Docstrings are left out: they may name a config without reading it.
    """
    names = {
        id(node.value): ast.unparse(
            node.targets[0] if isinstance(node, ast.Assign) else node.target
        )
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
    }
    sentences = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in sentences:
            yield str(node.value), names.get(id(node))


def names_in_code() -> set[str]:
    """Return every string that is used in the code, or whose constant is."""
    trees = list(sources())
    used: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used.add(node.id)
            elif isinstance(node, ast.Attribute):
                used.add(node.attr)
    return {text for tree in trees for text, name in strings(tree) if name is None or name in used}


def read_by_groups(groups: Mapping[str, ConfigRow], named: set[str]) -> Iterator[str]:
    """Return the broker configs that are read with a group's own: its default and its bounds."""
    for name, row in groups.items():
        if name in named:
            yield from filter(None, (row.synonym, row.floor, row.ceiling))


@pytest.fixture(scope="module")
def read() -> set[str]:
    named = names_in_code()
    return named | set(read_by_groups(CONFIGS[Scope.GROUP], named))


@pytest.mark.parametrize(
    ("scope", "row"), ROWS, ids=[f"{scope.name}-{row.name}" for scope, row in ROWS]
)
def test_a_config_is_read_or_says_that_it_is_not(
    scope: Scope, row: ConfigRow, read: set[str]
) -> None:
    is_read = scope is not Scope.TOPIC and row.name in read
    assert row.is_read is is_read, (
        f"{row.name}: read it, or mark its row with is_read=False"
        if row.is_read
        else f"{row.name} is read: take the mark off its row"
    )


def test_a_config_without_effect_says_so_when_it_is_described() -> None:
    for _, row in ROWS:
        assert row.doc.strip(), row.name
        assert row.documentation.endswith("Accepted, without effect.") is not row.is_read
