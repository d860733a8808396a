"""Read scenario files: those that come with the program, and the user's own."""

from __future__ import annotations

import tomllib
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

from bench.scenarios.checks import check
from bench.scenarios.lines import line_of
from bench.scenarios.scenario import Scenario
from bench.scenarios.values import decoded
from failover.drills.checked import DrillError, checked

SIZE_BYTES_MAX: Final = 64 << 10
SUFFIX: Final = ".toml"


def names() -> tuple[str, ...]:
    """Return the names of the scenarios included in the program."""
    files = (each.name for each in _directory().iterdir())
    return tuple(sorted(name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX)))


def found(name: str) -> Scenario:
    """Return the scenario of this name, or in this file; raises DrillError."""
    if name.endswith(SUFFIX):
        path = Path(name)
        try:
            with path.open("rb") as file:
                data = file.read(SIZE_BYTES_MAX + 1)
        except OSError as error:
            raise DrillError(f"{name} cannot be read: {error.strerror}.") from None
        return parse(path.name.removesuffix(SUFFIX), _text(name, data))
    if name not in names():
        raise DrillError(
            f"There is no scenario {name!r}: see --list, or name a file that ends with {SUFFIX}."
        )
    return parse(name, (_directory() / f"{name}{SUFFIX}").read_text("utf-8"))


def _text(name: str, data: bytes) -> str:
    if len(data) > SIZE_BYTES_MAX:
        raise DrillError(f"{name} is larger than {SIZE_BYTES_MAX >> 10} KiB.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DrillError(f"{name} is not UTF-8.") from None


def parse(name: str, text: str) -> Scenario:
    """Read a scenario; raises DrillError with one sentence for each mistake, and its line."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DrillError(f"Scenario {name} is no TOML: {error}.") from None
    if "name" in table:
        raise DrillError(f"Scenario {name}: omit `name`: the name of the file is the scenario's.")
    where = partial(line_of, text)
    what = f"Scenario {name}"
    made = checked(Scenario, {**table, "name": name}, what, decoded=decoded, line_of=where)
    check(made, what, where)
    return made


def _directory() -> Any:
    return resources.files(__package__)
