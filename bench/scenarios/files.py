"""Read scenario files: those that come with the program, and the user's own."""

from __future__ import annotations

import tomllib
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from bench.scenarios.checks import check, check_variants
from bench.scenarios.lines import line_of
from bench.scenarios.scenario import BASE, Scenario
from bench.scenarios.values import decoded
from bench.scenarios.variants import line_of_varied, varied
from failover.drills.checked import DrillError, checked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SIZE_BYTES_MAX: Final = 64 << 10
SUFFIX: Final = ".toml"


class ParsedScenario(NamedTuple):
    """A scenario that was read, what to call it, and where each of its groups is in the file."""

    scenario: Scenario
    what: str
    line_of: Callable[[Sequence[str | int]], int | None]
    places: Mapping[str, tuple[str | int, ...]]


def names() -> tuple[str, ...]:
    """Return the names of the scenarios included in the program."""
    files = (each.name for each in _directory().iterdir())
    return tuple(sorted(name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX)))


def found(name: str) -> Scenario:
    """Return the scenario of this name, or in this file; raises DrillError."""
    return parse(*_read(name))


def found_variants(name: str) -> dict[str, Scenario]:
    """Return the scenario as its file has it, and its variants, by their names."""
    return parse_variants(*_read(name))


def parsed_variants(name: str) -> dict[str, ParsedScenario]:
    """Return the same, with where each is in the file."""
    return parsed(*_read(name))


def _read(name: str) -> tuple[str, str]:
    """Return the name of a scenario and the text of its file."""
    if name.endswith(SUFFIX):
        path = Path(name)
        try:
            with path.open("rb") as file:
                data = file.read(SIZE_BYTES_MAX + 1)
        except OSError as error:
            raise DrillError(f"{name} cannot be read: {error.strerror}.") from None
        return path.name.removesuffix(SUFFIX), _text(name, data)
    if name not in names():
        raise DrillError(
            f"There is no scenario {name!r}: see --list, or name a file that ends with {SUFFIX}."
        )
    return name, (_directory() / f"{name}{SUFFIX}").read_text("utf-8")


def _text(name: str, data: bytes) -> str:
    if len(data) > SIZE_BYTES_MAX:
        raise DrillError(f"{name} is larger than {SIZE_BYTES_MAX >> 10} KiB.")
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError:
        raise DrillError(f"{name} is not UTF-8.") from None


def parse(name: str, text: str) -> Scenario:
    """Read a scenario; raises DrillError with one sentence for each mistake, and its line."""
    return parse_variants(name, text)[BASE]


def parse_variants(name: str, text: str) -> dict[str, Scenario]:
    """Read a scenario and its variants, by their names; raises DrillError as :func:`parse` does."""
    return {variant: each.scenario for variant, each in parsed(name, text).items()}


def parsed(name: str, text: str) -> dict[str, ParsedScenario]:
    """Read the same; return with each where it is in the file."""
    try:
        return _parsed(name, text)
    except RecursionError:
        raise DrillError(f"Scenario {name} has values within values, too deep to read.") from None


def _parsed(name: str, text: str) -> dict[str, ParsedScenario]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DrillError(f"Scenario {name} is no TOML: {error}.") from None
    if "name" in table:
        raise DrillError(f"Scenario {name}: omit `name`: the name of the file is the scenario's.")
    what, where = f"Scenario {name}", partial(line_of, text)
    made = {BASE: _made(name, table, what, where)}
    base = made[BASE].scenario
    check_variants(base, what, where)
    for number, variant in enumerate(base.variants):
        changed = varied(table, number)
        at = partial(line_of_varied, text, table, number)
        made[variant.name] = _made(name, changed, f"{what}, variant {variant.name}", at)
    return made


def _made(
    name: str,
    table: Mapping[str, Any],
    what: str,
    where: Callable[[Sequence[str | int]], int | None],
) -> ParsedScenario:
    made = checked(Scenario, {**table, "name": name}, what, decoded=decoded, line_of=where)
    check(made, what, where)
    places = {
        copy: ("groups", number)
        for number, group in enumerate(made.groups)
        for copy in group.copied()
    }
    return ParsedScenario(with_copies(made), what, where, places)


def with_copies(scenario: Scenario) -> Scenario:
    """Return the scenario with each copy of an application as a group of its own, once only."""
    groups = [replace(group, name=name) for group in scenario.groups for name in group.copied()]
    firsts = {group.name: next(group.copied()) for group in scenario.groups}
    faults = [
        replace(fault, group=firsts.get(fault.group or "", fault.group))
        for fault in scenario.faults
    ]
    return replace(scenario, groups=tuple(groups), faults=tuple(faults))


def _directory() -> Any:
    return resources.files(__package__)
