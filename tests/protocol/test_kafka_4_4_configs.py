"""The configs of groups are those of Kafka 4.4.0: names, types, defaults, bounds, importance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from protocol.config import CONFIGS, ConfigRow, Scope, text_of, validate

KINDS = ("consumer", "share", "streams")
DIFFERENCES = {
    **{
        (Scope.GROUP, f"{kind}.assignment.interval.ms"): {"bounds": "[-1,...]"}  # -1: the broker's
        for kind in KINDS
    },
    **{
        (scope, f"{prefix}{kind}.assignor.offload.enable"): {"is internal": False}  # Kafka: unused
        for scope, prefix in ((Scope.BROKER, "group."), (Scope.GROUP, ""))
        for kind in KINDS
    },
    # One partition for each coordinator (docs/decisions/share-state.md).
    (Scope.BROKER, "offsets.topic.num.partitions"): {"default": "3"},
}
"""What differs from Kafka, and why."""
OURS = {
    Scope.BROKER: {
        "group.consumer.assignor.rack.aware.enable",
        "group.consumer.unsettled.heartbeat.interval.ms",
        "group.coordinator.background.timeout.ms",
        "group.streams.unsettled.heartbeat.interval.ms",
        "share.version",  # Kafka's is a feature, which kafka-features.sh changes
    },
    Scope.GROUP: {
        "consumer.assignor.rack.aware.enable",
        "consumer.static.takeover.enable",
        "group.active.members",
        "group.instance.assignment.retention.ms",
        "group.expected.instance.ids",
        "group.expected.instance.wait.ms",
    },
}
"""What Kafka does not have."""
PREFIXES = ("consumer.", "errors.", "group.", "offset", "share.", "streams.")


@dataclass(frozen=True)
class Theirs:
    """A line of the list."""

    scope: Scope
    name: str
    traits: dict[str, str | bool]


def listed() -> list[Theirs]:
    found = []
    scope = Scope.BROKER
    for line in (Path(__file__).parent / "kafka_4_4_configs.txt").read_text().splitlines():
        if line.startswith("#"):
            scope = Scope.GROUP if line == "# group" else Scope.BROKER
            continue
        name, kind, default, bounds, importance = (part.strip() for part in line.split("|"))
        traits: dict[str, str | bool] = {
            "type": kind,
            "default": default,
            "bounds": bounds,
            "importance": importance.split()[0],
            "is internal": importance.endswith(" internal"),
        }
        found.append(Theirs(scope, name, traits))
    return found


LIST = listed()


def ours(row: ConfigRow, theirs: Theirs) -> dict[str, str | bool]:
    """Return the traits of a row as the list writes them."""
    default = "null" if row.default is None else text_of(row.default)
    if isinstance(row.default, tuple):
        default = f"[{', '.join(row.default)}]"
    return {
        "type": row.type.name,
        "default": default,
        "bounds": bounds(row, str(theirs.traits["bounds"])),
        "importance": row.importance.name,
        "is internal": row.internal,
    }


def bounds(row: ConfigRow, theirs: str) -> str:
    if row.choices:
        choices = ", ".join(row.choices)
        return (
            f"(case insensitive) [{choices.upper()}]" if "insensitive" in theirs else f"[{choices}]"
        )
    if row.pattern is not None:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"
    if row.low is None and row.high is None:
        return "" if isinstance(row.default, tuple) else "null"
    end = "" if row.high is None else f",{row.high}"
    return f"[{row.low},...{end}]"


@pytest.mark.parametrize("theirs", LIST, ids=[f"{one.scope.name}-{one.name}" for one in LIST])
def test_a_config_of_kafka_4_4_is_here_as_it_is_there(theirs: Theirs) -> None:
    row = CONFIGS[theirs.scope][theirs.name]
    expected = theirs.traits | DIFFERENCES.get((theirs.scope, theirs.name), {})
    assert ours(row, theirs) == expected
    if row.default is not None:
        assert validate(theirs.name, text_of(row.default), theirs.scope) is None


def test_every_difference_is_one() -> None:
    for theirs in LIST:
        for trait, value in DIFFERENCES.get((theirs.scope, theirs.name), {}).items():
            assert theirs.traits[trait] != value, theirs.name
    assert set(DIFFERENCES) <= {(one.scope, one.name) for one in LIST}


@pytest.mark.parametrize("scope", OURS)
def test_no_other_config_of_groups_is_here(scope: Scope) -> None:
    theirs = {one.name for one in LIST if one.scope is scope}
    assert {
        name for name in CONFIGS[scope] if name.startswith(PREFIXES) and name not in theirs
    } == OURS[scope]
