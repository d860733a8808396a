"""docs/scenarios.md has every setting of the format, with its default."""

import re
from itertools import takewhile
from pathlib import Path
from typing import get_args

import pytest
from msgspec import NODEFAULT, Struct, UnsetType
from msgspec.structs import fields

from bench.rehearse import _parser
from bench.scenarios.behaviours import Behaviour
from bench.scenarios.faults import Fault
from bench.scenarios.files import parse, parse_variants
from bench.scenarios.inference import InferredCause
from bench.scenarios.members import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from bench.scenarios.scenario import Group, GroupLimits, Scenario, ScenarioTopic, Variant
from bench.scenarios.values import Amount, Duration
from bench.scenarios.verdicts.conditions import RUN_MEASURES
from bench.scenarios.verdicts.measures import MEASURES
from bench.scenarios.verdicts.verdict import COLUMNS
from protocol.stories.causes import Cause

PAGE = (Path(__file__).parents[3] / "docs" / "scenarios.md").read_text()

SAID_IN_WORDS = {
    "maxSurge": "25%",
    "maxUnavailable": "25%, of a StatefulSet 1",
    "session_timeout_ms": str(SESSION_TIMEOUT_MS),
    "heartbeat_interval_ms": str(HEARTBEAT_INTERVAL_MS),
    "until": "the end",
    "group": "the first one",
    "expect": "no limits",
}
"""Defaults that depend on other settings."""
NOTHING_GIVEN = {
    "nodes": "3, or 1 without faults and racks",
    "protocol": "as before",
    "rack": "any",
    "node": "the coordinator",
    "for": "until it has started",
    "faults": "the scenario's",
    "expect_kafka": "as `expect`",
    "assignor": "range",
    "slow_pods": "all",
    "commit_interval_ms": "the scenario's",
}
"""What it means that a setting is not given, where that is not: no limit."""


def section(title: str) -> list[list[str]]:
    """Return the rows of the first table below a title."""
    lines = PAGE.split(f"{title}\n", 1)[1].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| "))
    table = takewhile(lambda line: line.startswith("|"), lines[start:])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table][2:]


def shown(field) -> str:
    """Return a default as the page writes it."""
    default = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if default is NODEFAULT or isinstance(default, UnsetType):
        return ""
    if field.encode_name in SAID_IN_WORDS and not isinstance(default, Amount):
        return SAID_IN_WORDS[field.encode_name]
    if isinstance(default, Duration):
        return f"{default // 1000}s"
    if isinstance(default, bool):
        return str(default).lower()
    if default is None:
        return NOTHING_GIVEN.get(field.encode_name, "no limit")
    return str(default) if default or default == 0 else "none"


def settings_of(kind: type[Struct]) -> list[list[str]]:
    return [[f"`{each.encode_name}`", shown(each)] for each in fields(kind)]


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("## The file", Scenario),
        ("### A topic", ScenarioTopic),
        ("### A group", Group),
        ("### What a group may cost", GroupLimits),
        ("### Variants", Variant),
    ],
)
def test_a_table_has_every_setting_and_its_default(title: str, kind: type[Struct]) -> None:
    told = sorted(row[:2] for row in section(title))
    assert told == sorted(
        row for row in settings_of(kind) if row[0] != "`name`" or kind in (Group, Variant)
    )


@pytest.mark.parametrize(
    ("title", "kinds"), [("### Behaviours", get_args(Behaviour)), ("### Faults", get_args(Fault))]
)
def test_a_table_has_everything_that_can_happen(title: str, kinds: tuple[type[Struct]]) -> None:
    told: dict[str, list[list[str]]] = {}
    for do, setting, default, _ in section(title):
        if do:
            name = do.strip("`")
            told[name] = []
        if setting:
            told[name].append([setting, default])
    for kind in kinds:
        listed = sorted(told.pop(kind.__struct_config__.tag))
        assert listed == sorted(row for row in settings_of(kind) if row[0] != "`at`")
    assert told == {}


def test_the_example_is_a_scenario() -> None:
    text, variants = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert parse("example", text).groups[0].replicas == 12
    assert list(parse_variants("example", text + variants)) == ["base", "static", "patient"]


def test_the_causes_and_measures_are_explained() -> None:
    causes = section("### Causes")
    assert [row[0] for row in causes] == list(InferredCause)
    known = {name for row in causes for name in re.findall(r"`(.+?)`", row[2])}
    assert known < {*map(str, Cause)}
    measures = PAGE.split("Measures are ", 1)[1].split(".", 1)[0]
    assert re.findall(r"`(\w+)`", measures) == list(MEASURES)
    of_runs = PAGE.split("Measures of the whole run are ", 1)[1].split(".", 1)[0]
    assert re.findall(r"`(\w+)`", of_runs) == list(RUN_MEASURES)


def test_the_options_are_explained() -> None:
    told = {row[0].strip("`").split()[0] for row in section("## In continuous integration")}
    elsewhere = {"--from-group", "--spark", "--master"}
    assert all(f"`{each}" in PAGE or f" {each} " in PAGE for each in elsewhere)
    told |= {"--simulate", "--bootstrap", "--kafka", "--list", "--help", *elsewhere}
    assert told == {each for each in _parser()._option_string_actions if each.startswith("--")}


def test_the_columns_of_the_verdict_are_explained() -> None:
    assert [row[0] for row in section("## What the table says")] == list(COLUMNS)
