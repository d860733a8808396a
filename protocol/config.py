"""Configs: their values, their checks, and the error messages about them.

The rows are in ``config_table``, ``config_share`` and ``config_topics``. :class:`Configs` is an
immutable snapshot of the broker configs; a change makes a new snapshot.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.config_error import ConfigError, invalid
from protocol.config_rows import ConfigRow, ConfigType, Importance, Value
from protocol.config_table import BROKER_CONFIGS, GROUP_CONFIGS
from protocol.config_topics import TOPIC_CONFIGS
from protocol.config_unused import UNUSED_CONFIGS, UNUSED_PREFIXES
from protocol.listeners import check_listeners

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = (
    "BROKER_CONFIGS",
    "CONFIGS",
    "GROUP_CONFIGS",
    "TOPIC_CONFIGS",
    "ConfigError",
    "ConfigRow",
    "ConfigType",
    "Configs",
    "Importance",
    "Scope",
    "ServerFile",
    "clamped",
    "out_of_bounds",
    "parse",
    "read_server_configs",
    "text_of",
    "validate",
    "validate_group",
)


class Scope(IntEnum):
    """The kind of resource that a config belongs to; the numbers are Kafka's resource types."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


CONFIGS: Final[Mapping[Scope, Mapping[str, ConfigRow]]] = MappingProxyType(
    {Scope.TOPIC: TOPIC_CONFIGS, Scope.BROKER: BROKER_CONFIGS, Scope.GROUP: GROUP_CONFIGS}
)
_INTEGERS: Final = MappingProxyType(
    {ConfigType.SHORT: 2**15, ConfigType.INT: 2**31, ConfigType.LONG: 2**63}
)


NAME_CHARACTERS_MAX: Final = 80
"""No config has a longer name, not even a misspelt one that gets a suggestion."""


class Configs:
    """A snapshot of the broker configs: defaults, overridden by name.

    The four getters differ only in their return type; asking for an unknown name is a bug.
    """

    __slots__ = ("_values", "overrides")

    def __init__(self, overrides: Mapping[str, str] = MappingProxyType({})) -> None:
        """Check every value of ``overrides`` (name to text)."""
        values = {name: row.default for name, row in BROKER_CONFIGS.items()}
        for name, text in overrides.items():
            values[name] = parse(find(name), text)
        self._values = values
        self.overrides: Mapping[str, str] = MappingProxyType(dict(overrides))
        _check_together(values)

    def with_overrides(self, overrides: Mapping[str, str]) -> Configs:
        """Return the next snapshot with these overrides; others stay unchanged."""
        return Configs({**self.overrides, **overrides})

    def without(self, names: Iterable[str]) -> Configs:
        """Return the next snapshot with these configs back at their defaults."""
        dropped = set(names)
        return Configs({name: text for name, text in self.overrides.items() if name not in dropped})

    def integer(self, name: str) -> int:
        """Return an integer (a time is in the unit that the name ends with)."""
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def boolean(self, name: str) -> bool:
        """Return a boolean."""
        value = self._values[name]
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str:
        """Return a string."""
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def strings(self, name: str) -> tuple[str, ...]:
        """Return a list; one that has no default is empty until it is set."""
        value = () if self._values[name] is None else self._values[name]
        assert isinstance(value, tuple), name
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configs) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.overrides.items())))

    def __repr__(self) -> str:
        shown = {
            name: "[hidden]" if BROKER_CONFIGS[name].type is ConfigType.PASSWORD else text
            for name, text in self.overrides.items()
        }
        return f"Configs({shown!r})"

    def __reduce__(self) -> tuple[type[Configs], tuple[dict[str, str]]]:
        return Configs, (dict(self.overrides),)


@dataclass(frozen=True, slots=True)
class ServerFile:
    """A properties file: our configs, and the names of Kafka's configs that are ignored here."""

    configs: Configs
    unused: tuple[str, ...]


def read_server_configs(properties: Mapping[str, str]) -> ServerFile:
    """Read a server's properties; a name that is neither ours nor Kafka's is an error."""
    overrides = {name: text for name, text in properties.items() if name in BROKER_CONFIGS}
    others = [name for name in properties if name not in BROKER_CONFIGS]
    for name in others:
        if name not in UNUSED_CONFIGS and not name.startswith(UNUSED_PREFIXES):
            find(name)
    for name, text in overrides.items():
        if any(unicodedata.category(character) == "Cc" for character in text):
            raise invalid(name, repr(text), "control character")
    configs = Configs(overrides)
    _check_assignors(configs)
    check_listeners(configs)
    return ServerFile(configs, tuple(others))


def _check_assignors(configs: Configs) -> None:
    """Refuse an assignor that is not installed here: members could not use it."""
    from protocol.assignors.registry import BUILT_IN_OF, ENTRY_POINTS, custom_names

    custom = sorted(custom_names())
    known = {
        ASSIGNORS: (*BUILT_IN_OF["consumer"], *custom),
        SHARE_ASSIGNORS: (*BUILT_IN_OF["share"], *custom),
        STREAMS_ASSIGNORS: (*BUILT_IN_OF["streams"], *custom),
    }
    for name, names in known.items():
        for assignor in configs.strings(name):
            if assignor not in names:
                near = get_close_matches(assignor, names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
                raise ConfigError(
                    f"Unknown assignor {assignor} in {name} ({hint}): a custom one is installed as"
                    f" an entry point of the group {ENTRY_POINTS}"
                )


def find(name: str, scope: Scope = Scope.BROKER, *, suggests: bool = True) -> ConfigRow:
    """Return a config's row; the error for an unknown name suggests a similar one.

    A suggestion takes a millisecond, so callers that look up many names disable it. None is made
    for a name that is longer than any config's.
    """
    table = CONFIGS[scope]
    row = table.get(name)
    if row is not None:
        return row
    sentence = f"Unknown {scope.name.lower()} config name: {name}"
    if not suggests or len(name) > NAME_CHARACTERS_MAX:
        raise ConfigError(sentence)
    near = get_close_matches(name, [*table, *UNUSED_CONFIGS], n=1, cutoff=0.8)
    raise ConfigError(f"{sentence} (did you mean {near[0]}?)" if near else sentence)


def validate(
    name: str, text: str | None, scope: Scope = Scope.BROKER, *, suggests: bool = True
) -> str | None:
    """Return what is wrong with one value, in Kafka's words; None when it is valid.

    For IncrementalAlterConfigs. The error code is always INVALID_CONFIG. ``suggests`` is passed to
    :func:`find`.
    """
    try:
        parse(find(name, scope, suggests=suggests), text)
    except ConfigError as error:
        return str(error)
    return None


BROKERS: Final = -1
"""As a group's assignment interval: use the broker's (KIP-1263)."""


def validate_group(overrides: Mapping[str, str], configs: Configs) -> str | None:
    """Return what is wrong with a group's configs: names, values, or the broker's bounds."""
    for name, text in overrides.items():
        if name not in GROUP_CONFIGS:
            return f"Unknown group config name: {name}"
        sentence = validate(name, text, Scope.GROUP)
        if sentence is not None:
            return sentence
    values = _group_values(overrides, configs)
    for name in overrides:
        row = GROUP_CONFIGS[name]
        value = values.get(name, BROKERS)
        if value == BROKERS:
            continue
        if row.floor is not None and value < configs.integer(row.floor):
            return f"{name} must be greater than or equal to {row.floor}"
        if row.ceiling is not None and value > configs.integer(row.ceiling):
            return f"{name} must be less than or equal to {row.ceiling}"
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            return f"{session} must be greater than {heartbeat}"
    return _check_group_assignor(overrides, configs)


def _check_group_assignor(overrides: Mapping[str, str], configs: Configs) -> str | None:
    assignors = configs.strings(STREAMS_ASSIGNORS)
    if overrides.get(GROUP_ASSIGNOR, assignors[0]) in assignors:
        return None
    return f"{GROUP_ASSIGNOR} must be one of {', '.join(assignors)}"


def clamped(name: str, value: int, configs: Configs) -> int:
    """Return the effective value of a group's number, which may be outside the present bounds."""
    row = GROUP_CONFIGS[name]
    if row.floor is not None:
        value = max(value, configs.integer(row.floor))
    if row.ceiling is not None:
        value = min(value, configs.integer(row.ceiling))
    return value


def out_of_bounds(overrides: Mapping[str, str], configs: Configs) -> list[str]:
    """Return one sentence for each of a group's numbers whose effective value differs."""
    sentences = []
    for name, text in overrides.items():
        row = GROUP_CONFIGS.get(name)
        if row is None or row.type is not ConfigType.INT or int(text) == BROKERS:
            continue
        value = clamped(name, int(text), configs)
        if value != int(text):
            bound = row.floor if value > int(text) else row.ceiling
            sentences.append(f"{name} is {text}, beyond {bound}; {value} counts")
    return sentences


def _group_values(overrides: Mapping[str, str], configs: Configs) -> dict[str, int]:
    """Return a group's numbers: its own, otherwise the broker's."""
    values = {}
    for name, row in GROUP_CONFIGS.items():
        if row.type is not ConfigType.INT or row.synonym is None:
            continue
        text = overrides.get(name)
        values[name] = configs.integer(row.synonym) if text is None else int(text)
    return values


def parse(row: ConfigRow, text: str | None) -> Value:
    """Parse a value; a ConfigError says in one sentence what is wrong with it."""
    if text is None:
        raise ConfigError(f"Invalid value null for configuration {row.name}: it must have a value")
    value = _typed(row, text.strip())
    if row.distinct and isinstance(value, tuple):
        _check_distinct(row, text, value)
    if row.low is not None and isinstance(value, int | float) and value < row.low:
        raise _invalid(row, text, f"Value must be at least {row.low}")
    if row.high is not None and isinstance(value, int | float) and value > row.high:
        raise _invalid(row, text, f"Value must be no more than {row.high}")
    _check_words(row, text, value if isinstance(value, tuple) else (str(value),))
    return value


def _check_words(row: ConfigRow, text: str, words: tuple[str, ...]) -> None:
    for one in words:
        if row.pattern and not re.fullmatch(row.pattern, one):
            raise _invalid(row, text, f"String must match {row.pattern}")
        if row.choices and one.lower() not in {choice.lower() for choice in row.choices}:
            raise _invalid(row, text, f"String must be one of: {', '.join(row.choices)}")


def _check_distinct(row: ConfigRow, text: str, values: tuple[str, ...]) -> None:
    if not values:
        raise _invalid(row, text, "it must not be empty")
    if len(set(values)) < len(values):
        raise _invalid(row, text, "its values must not be duplicated")


def _typed(row: ConfigRow, text: str) -> Value:
    if row.type is ConfigType.LIST:
        stripped = (one.strip() for one in text.split(","))
        return tuple(row.aliases.get(one, one) for one in stripped if one)
    if row.type in (ConfigType.STRING, ConfigType.CLASS, ConfigType.PASSWORD):
        return text
    if row.type is ConfigType.BOOLEAN:
        if text.lower() not in {"true", "false"}:
            raise _invalid(row, text, "Expected value to be either true or false")
        return text.lower() == "true"
    try:
        if row.type is ConfigType.DOUBLE:
            return float(text)
        number = int(text) if text.isascii() and "_" not in text else None
    except ValueError:
        number = None
    bound = _INTEGERS.get(row.type, 0)
    if number is None or not -bound <= number < bound:
        raise _invalid(row, text, f"Not a number of type {row.type.name}")
    return number


def _invalid(row: ConfigRow, text: str, why: str) -> ConfigError:
    return invalid(row.name, text, why)


def _check_together(values: Mapping[str, Value]) -> None:
    """Refuse values that are valid alone but contradict each other."""
    for low, high in _ORDERED:
        below, above = values[low], values[high]
        assert isinstance(below, int), low
        assert isinstance(above, int), high
        if below > above:
            raise ConfigError(f"{low} ({below}) must not be greater than {high} ({above})")
    for low, high in _APART:
        below, above = values[low], values[high]
        assert isinstance(below, int), low
        assert isinstance(above, int), high
        if below >= above:
            raise ConfigError(f"{low} ({below}) must be less than {high} ({above})")
    if "classic" not in _listed(values, PROTOCOLS):
        raise ConfigError(f"{PROTOCOLS} must name classic: classic groups cannot be switched off")
    if len(_listed(values, SHARE_ASSIGNORS)) != 1:
        raise ConfigError(f"{SHARE_ASSIGNORS} must name exactly one assignor")


def _listed(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    value = values[name]
    assert isinstance(value, tuple), name
    return value


def text_of(value: Value) -> str:
    """Format a value as Kafka does: true and false, lists with commas."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


PROTOCOLS: Final = "group.coordinator.rebalance.protocols"
GROUP_ASSIGNOR: Final = "streams.assignor.name"
STREAMS_ASSIGNORS: Final = "group.streams.assignors"
SHARE_ASSIGNORS: Final = "group.share.assignors"
ASSIGNORS: Final = "group.consumer.assignors"

_APART: Final = tuple(
    (f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms")
    for kind in ("consumer", "share", "streams")
)
"""Pairs of configs whose first must be less than the second."""

_ORDERED: Final = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.share.max.size", "group.share.max.share.sessions"),
    *(
        (f"group.share.{low}{name}", f"group.share.{high}{name}")
        for name in (
            "delivery.count.limit",
            "partition.max.record.locks",
            "record.lock.duration.ms",
        )
        for low, high in (("min.", ""), ("", "max."))
    ),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    ("group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas"),
    ("group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms"),
    ("replica.heartbeat.interval.ms", "replica.lease.ms"),
    ("replica.lease.ms", "replica.election.timeout.ms"),
    *(
        (f"group.{kind}.{low}{name}", f"group.{kind}.{high}{name}")
        for kind in ("consumer", "share", "streams")
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
        for low, high in (("min.", ""), ("", "max."))
    ),
)
"""Pairs of configs whose first may not exceed the second."""
