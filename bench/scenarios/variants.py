"""Apply a variant to the table of its scenario's file, and find the lines of what it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.scenarios.lines import line_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def varied(table: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the table of a checked scenario with the settings of this variant."""
    variant = table["variants"][number]
    others = variant.get("groups", {})
    faults = {"faults": variant["faults"]} if "faults" in variant else {}
    return {
        **{name: value for name, value in table.items() if name != "variants"},
        **faults,
        "groups": [{**group, **others.get(group["name"], {})} for group in table["groups"]],
        "configs": {**table.get("configs", {}), **variant.get("configs", {})},
    }


def line_of_varied(
    text: str, table: Mapping[str, Any], number: int, path: Sequence[str | int]
) -> int | None:
    """Return the line of a setting in a varied table: the variant's, if it has the setting."""
    variant = table["variants"][number]
    at: Sequence[str | int] = path
    if path[:1] == ("groups",) and len(path) > 2:
        name = table["groups"][path[1]]["name"]
        if path[2] in variant.get("groups", {}).get(name, {}):
            at = ("variants", number, "groups", name, *path[2:])
    elif _is_own(variant, path):
        at = ("variants", number, *path)
    return line_of(text, at)


def _is_own(variant: Mapping[str, Any], path: Sequence[str | int]) -> bool:
    """Whether a setting that is not of a group is the variant's."""
    if path[:1] == ("faults",):
        return "faults" in variant
    return path[:1] == ("configs",) and bool(path[1:2]) and path[1] in variant.get("configs", {})
