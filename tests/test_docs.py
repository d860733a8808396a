"""What the documents name exists where they say it does."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIFE = ROOT / "docs" / "life-of-a-joingroup.md"
ROW = re.compile(r"^\| (\d) \| `([\w.]+)` \| `([\w/]+)\.py` \|$", re.MULTILINE)
ROWS = ROW.findall(LIFE.read_text())
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_the_life_of_a_joingroup_names_eight_functions_in_order() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 9))


@pytest.mark.parametrize(("name", "module"), [(name, module) for _, name, module in ROWS])
def test_a_function_of_the_life_of_a_joingroup_is_where_the_document_says(
    name: str, module: str
) -> None:
    found: object = importlib.import_module(module.replace("/", "."))
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)
    assert f"**{[row[1] for row in ROWS].index(name) + 1}. `{name}`**" in LIFE.read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        assert (document.parent / target).exists(), target


def test_every_decision_is_in_the_index() -> None:
    decisions = ROOT / "docs" / "decisions"
    named = set(LINK.findall((decisions / "README.md").read_text()))
    assert named == {page.name for page in decisions.glob("*.md")} - {"README.md"}
