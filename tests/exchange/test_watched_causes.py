"""Which causes `rollcall watch` can tell: the table of the docs, the code, and a live Kafka."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.groups.facts import MemberEventKind, RebalanceTrigger, TopicsCause
from protocol.stories.causes import OF_MEMBERS, OF_TOPICS, OF_TRIGGERS, Cause
from tests.exchange.watched_steps import STEPS, TRACED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parent.parent.parent
ROW = re.compile(r"^\| `([\w-]+)` \|([^\n]+)\|$", re.MULTILINE)
TYPES = ("classic", "consumer", "share", "streams")
RECORDS, INFERRED, NO, NEVER = "records", "inferred", "no", "\N{EN DASH}"
TOLD = {RECORDS, INFERRED}


def table() -> Mapping[tuple[str, Cause], str]:
    """Return what the docs say, by type of group and cause."""
    page = (ROOT / "docs" / "watch.md").read_text().partition("### Which causes can be told")[2]
    return {
        (kind, Cause(name)): cell.strip()
        for name, cells in ROW.findall(page)
        for kind, cell in zip(TYPES, cells.split("|"), strict=True)
    }


def test_the_docs_say_how_many_pairs_a_kafka_shows() -> None:
    page = (ROOT / "docs" / "watch.md").read_text()
    kinds = {kind for kind, _ in live_pairs()}
    assert kinds == set(TYPES)
    assert f"all {len(live_pairs())} pairs of a cause and a type" in page


def live_pairs() -> set[tuple[str, Cause]]:
    """Return the pairs that a live Kafka shows."""
    return {(kind, cause) for kind, cause, _ in live()}


def test_the_table_is_whole() -> None:
    cells = table()
    assert set(cells) == {(kind, cause) for kind in TYPES for cause in Cause}
    assert set(cells.values()) == {RECORDS, INFERRED, NO, NEVER}


def test_a_live_kafka_shows_what_the_table_says() -> None:
    cells, tried = table(), set[tuple[str, Cause]]()
    for kind, cause, is_inferred in live():
        assert cells[kind, cause] == (INFERRED if is_inferred else RECORDS), (kind, cause)
        tried.add((kind, cause))
    told = {key for key, cell in cells.items() if cell in TOLD}
    assert tried == told


def live() -> Iterator[tuple[str, Cause, bool]]:
    yield from TRACED
    for kind, steps in STEPS.values():
        now = kind
        for step in steps:
            now = step.kind or now
            yield now, step.cause, bool(step.inferred)


def test_the_code_concludes_what_the_table_says() -> None:
    told = {key for key, cell in table().items() if cell in TOLD}
    triggers = {OF_TRIGGERS[RebalanceTrigger[each]] for each in named("classic", RebalanceTrigger)}
    assert {cause for kind, cause in told if kind == "classic"} == triggers
    kinds = {
        OF_MEMBERS[MemberEventKind[each]]
        for module in ("modern", "gone")
        for each in named(module, MemberEventKind)
    }
    topics = {
        OF_TOPICS[TopicsCause[each]]
        for module in ("modern", "causes")
        for each in named(module, TopicsCause)
    }
    assert {cause for kind, cause in told if kind != "classic"} == kinds | topics


def named(module: str, enum: type) -> set[str]:
    """Return the members of an enumeration that a module of the watch names."""
    tree = ast.parse((ROOT / "protocol" / "watching" / f"{module}.py").read_text())
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == enum.__name__
    }
