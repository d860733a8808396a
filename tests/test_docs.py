"""What the documents name exists where they say it does."""

import importlib
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType

import pytest

from actors.cli.main import _parser
from actors.metrics.row import MetricRow
from actors.metrics.table import ROWS
from bench.cli import BENCHES, STANDALONE
from bench.host_drills.table import HOST_DRILLS
from failover.drills import drill, verdict
from protocol.config_table import BROKER_CONFIGS, GROUP_CONFIGS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LIFE = DOCS / "life-of-a-joingroup.md"
ASSIGNMENT = DOCS / "assignment.md"
REPLICATION = DOCS / "replication.md"
METRICS = DOCS / "metrics.md"
WALKS = (LIFE, ASSIGNMENT)
"""Documents with a table of steps: a number, a function and its file."""

NAMING = (ASSIGNMENT, REPLICATION)
"""Documents whose every name in backquotes must exist."""

STEP = re.compile(r"^\| (\d+) \| `([\w.]+)` \| `([\w/]+)\.py` \|$", re.MULTILINE)
QUOTED = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"^([\w/]+)\.py$")
NAME = re.compile(r"^([A-Z][a-z]\w*(?:\.\w+)?|[a-z]+(?:_[a-z]+)+|[A-Z]+(?:_[A-Z]+)+)(?:\(\))?$")
"""A class or something of it, a function or field of several words, a constant of several words."""

CONFIG = re.compile(r"^(?:group\.(?!instance)|(?:consumer|replica|log|offsets)\.)[a-z.]+$")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
DOCUMENTS = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def steps(document: Path) -> list[tuple[int, str, str]]:
    return [(int(n), name, file) for n, name, file in STEP.findall(document.read_text())]


def module(file: str) -> ModuleType:
    return importlib.import_module(file.replace("/", "."))


def quoted(document: Path) -> list[str]:
    return QUOTED.findall(document.read_text())


def modules_of(document: Path) -> list[ModuleType]:
    return [module(found[1]) for text in quoted(document) if (found := FILE.match(text))]


def holds(thing: object, name: str) -> bool:
    """Whether a module or class has a name; a field of a dataclass without a default counts."""
    is_field = is_dataclass(thing) and any(each.name == name for each in fields(thing))
    return is_field or hasattr(thing, name)


def is_in(place: ModuleType, name: str) -> bool:
    """Whether a module has a name, ``Class.name``, or a class with a field of that name."""
    first, _, rest = name.partition(".")
    if rest:
        return hasattr(place, first) and holds(getattr(place, first), rest)
    classes = (thing for thing in vars(place).values() if isinstance(thing, type))
    return hasattr(place, name) or any(holds(each, name) for each in classes)


@pytest.mark.parametrize("document", WALKS, ids=name_of)
def test_the_steps_of_a_document_are_numbered_in_order(document: Path) -> None:
    numbers = [number for number, _, _ in steps(document)]
    assert len(numbers) >= 8
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(
    ("name", "file"), [(name, file) for document in WALKS for _, name, file in steps(document)]
)
def test_a_function_is_where_a_document_says(name: str, file: str) -> None:
    found: object = module(file)
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)


@pytest.mark.parametrize(("number", "name"), [(n, name) for n, name, _ in steps(LIFE)])
def test_the_life_of_a_joingroup_tells_of_each_step(number: int, name: str) -> None:
    assert f"**{number}. `{name}`**" in LIFE.read_text()


@pytest.mark.parametrize("number", [number for number, _, _ in steps(ASSIGNMENT)])
def test_the_way_to_an_assignment_tells_of_each_step(number: int) -> None:
    told = [
        int(each)
        for numbers in re.findall(r"(?<!\*)\*(\d[\d, ]*)\*(?!\*)", ASSIGNMENT.read_text())
        for each in numbers.split(",")
    ]
    assert told.count(number) == 1


def rows() -> Iterator[tuple[str, str]]:
    """Yield each name of a table's last column but one, with the files of the last one."""
    for line in REPLICATION.read_text().splitlines():
        cells = [QUOTED.findall(cell) for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[2] and all(FILE.match(each) for each in cells[2]):
            yield from ((name, " ".join(cells[2])) for name in cells[1])


@pytest.mark.parametrize(("name", "files"), list(rows()))
def test_a_rule_of_replication_is_kept_where_the_document_says(name: str, files: str) -> None:
    assert any(is_in(module(file.removesuffix(".py")), name) for file in files.split())


@pytest.mark.parametrize("document", NAMING, ids=name_of)
def test_every_name_in_a_document_is_in_a_file_that_it_names(document: Path) -> None:
    places = modules_of(document)
    names = {found[1] for text in quoted(document) if (found := NAME.match(text))}
    assert {name for name in names if not any(is_in(each, name) for each in places)} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_config_in_a_document_exists(document: Path) -> None:
    named = {text for text in quoted(document) if CONFIG.match(text)}
    assert named <= {*BROKER_CONFIGS, *GROUP_CONFIGS}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_command_in_a_document_exists(document: Path) -> None:
    text = document.read_text()
    commands = _parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    for word in re.findall(r"\brollcall ([a-z]+)\b(?= |`|$)", text):
        assert word in commands, word
    for name in re.findall(r"\brollcall drill ([a-z][\w-]*)", text):
        assert name in {*drill.names(), *HOST_DRILLS}, name
    for name in re.findall(r"\brollcall bench ([a-z][\w-]*)", text):
        assert name in {*BENCHES, *STANDALONE}, name


def test_the_report_of_a_drill_is_explained_line_by_line() -> None:
    nothing = verdict.DrillRecord(
        stories=(), committed={}, fault_ms=0, replicated_ms=None, stalled_ms=0
    )
    printed = [row.name for row in verdict.judge(drill.named("kill-leader"), nothing).rows]
    text = REPLICATION.read_text()
    table = text[text.index("| Line | Says |") : text.index("A drill is a TOML file")]
    lines = [line.split(" | ")[0].strip("| ") for line in table.splitlines()[2:] if line]
    *explained, last = lines
    assert [*explained, *last.split(", ")] == printed


def test_the_page_of_metrics_has_the_rows_of_their_table() -> None:
    table = "\n".join(map(metric_line, ROWS))
    assert table in METRICS.read_text(), f"the table of docs/metrics.md is to be:\n{table}"


def metric_line(row: MetricRow) -> str:
    """Return a row of the table of metrics as docs/metrics.md has it."""
    end = "" if not row.percentiles else "-{" + ",".join(row.percentiles) + "}"
    unit = "ratio" if row.unit == "1" else row.unit.replace("{", "").replace("}", "")
    labels = ", ".join(f"`{label}`" for label in row.all_labels) or "-"
    kafka = "yes" if row.kafka else "-"
    otlp = f"`{row.otlp}`" if row.otlp else "-"
    return (
        f"| `{row.key}{end}` | `{row.prometheus}` | {otlp} | {kafka} | {row.kind}, {unit}"
        f" | {labels} | {row.help} |"
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        assert (document.parent / target).exists(), target


def test_every_decision_is_in_the_index() -> None:
    decisions = DOCS / "decisions"
    named = set(LINK.findall((decisions / "README.md").read_text()))
    assert named == {page.name for page in decisions.glob("*.md")} - {"README.md"}
