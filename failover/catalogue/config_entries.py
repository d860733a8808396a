"""Configs as clients see them: every entry with its value, its source and its synonyms.

An entry's synonyms are the values it could have, the effective one first; its source is the source
of the first.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from protocol.config import (
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigError,
    ConfigRow,
    ConfigType,
    parse,
    text_of,
)
from protocol.wire.messages import DescribeConfigsResourceResult, DescribeConfigsSynonym

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    Adapt = Callable[[DescribeConfigsResourceResult], DescribeConfigsResourceResult]
    Names = Set[str]
    Rows = Sequence[ConfigRow]

FIXED_BYTES: Final = 10
"""What an entry or a synonym has in addition to its texts."""

BROKER_ROWS, TOPIC_ROWS, GROUP_ROWS = (
    tuple(table[name] for name in sorted(table) if not table[name].internal)
    for table in (BROKER_CONFIGS, TOPIC_CONFIGS, GROUP_CONFIGS)
)
"""The configs that clients see, by name."""

EVERY_NAME: Final[Names] = frozenset()
"""No names: the configs of all names."""


class ConfigSource(IntEnum):
    """The source of a value; the numbers are those of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayers:
    """A node's configs by source, each a mapping from name to text."""

    node: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)


def _as_it_is(entry: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    return entry


def bytes_of(entry: DescribeConfigsResourceResult) -> int:
    """Return about how many bytes an entry has in an answer."""
    texts = (entry.name, entry.value, entry.documentation)
    synonyms = ((each.name, each.value) for each in entry.synonyms)
    return sum(FIXED_BYTES + sum(len(text or "") for text in each) for each in (texts, *synonyms))


class SharedEntries:
    """Entries that are the same for all who ask: each is built once, and all of them are one tuple.

    ``build`` makes the entry of a row.
    """

    def __init__(
        self, rows: Rows, build: Callable[[ConfigRow], DescribeConfigsResourceResult]
    ) -> None:
        self._rows = rows
        self._build = build
        self._built: dict[str, DescribeConfigsResourceResult] = {}
        self._everything: Sequence[DescribeConfigsResourceResult] | None = None

    def of(self, wanted: Names = EVERY_NAME) -> Sequence[DescribeConfigsResourceResult]:
        """Return the configs with these names, by name."""
        if wanted:
            return tuple(map(self.entry, _named(self._rows, wanted)))
        if self._everything is None:
            self._everything = tuple(map(self.entry, self._rows))
        return self._everything

    def entry(self, row: ConfigRow) -> DescribeConfigsResourceResult:
        """Return the entry of one row."""
        entry = self._built.get(row.name)
        if entry is None:
            entry = self._built[row.name] = self._build(row)
        return entry


def broker_entries(layers: BrokerLayers, adapt: Adapt = _as_it_is) -> SharedEntries:
    """Describe the configs of one node."""
    return SharedEntries(
        BROKER_ROWS,
        lambda row: adapt(_entry(row, _broker_values(row, layers), read_only=not row.dynamic)),
    )


def cluster_entries(cluster: Mapping[str, str], adapt: Adapt = _as_it_is) -> SharedEntries:
    """Describe only the dynamic configs set for all nodes."""

    def build(row: ConfigRow) -> DescribeConfigsResourceResult:
        value = _synonym(row, cluster[row.name], ConfigSource.DYNAMIC_DEFAULT_BROKER)
        return adapt(_entry(row, [value]))

    return SharedEntries([row for row in BROKER_ROWS if row.name in cluster], build)


class ResourceEntries:
    """The configs of many topics or groups on one node.

    An entry that a resource does not override is built once and shared by all of them. An entry
    that many resources override with the same text is shared too, as long as this object lives.
    ``adapt`` changes each entry as it is built.
    """

    def __init__(
        self,
        rows: Rows,
        source: ConfigSource,
        layers: BrokerLayers,
        adapt: Adapt = _as_it_is,
    ) -> None:
        self._rows = rows
        self._source = source
        self._layers = layers
        self._adapt = adapt
        self._plain = SharedEntries(rows, lambda row: adapt(_entry(row, self._below(row))))
        self._overridden: dict[tuple[str, str], DescribeConfigsResourceResult] = {}

    def of(
        self, overrides: Mapping[str, str], wanted: Names = EVERY_NAME
    ) -> Sequence[DescribeConfigsResourceResult]:
        """Return the configs with these names of a resource that overrides some, by name."""
        if not overrides:
            return self._plain.of(wanted)
        return tuple(
            self._plain.entry(row) if (text := overrides.get(row.name)) is None
            else self._override(row, text)
            for row in _named(self._rows, wanted)
        )  # fmt: skip

    def _override(self, row: ConfigRow, text: str) -> DescribeConfigsResourceResult:
        known = self._overridden.get((row.name, text))
        if known is None:
            values = [_synonym(row, text, self._source), *self._below(row)]
            known = self._overridden[row.name, text] = self._adapt(_entry(row, values))
        return known

    def _below(self, row: ConfigRow) -> list[DescribeConfigsSynonym]:
        """Return the values that apply to a resource which overrides nothing."""
        below = BROKER_CONFIGS.get(row.synonym or row.name)
        return _broker_values(below, self._layers) if below else [_default(row)]


def topics_entries(layers: BrokerLayers, adapt: Adapt = _as_it_is) -> ResourceEntries:
    """Describe the configs of topics."""
    return ResourceEntries(TOPIC_ROWS, ConfigSource.TOPIC, layers, adapt)


def groups_entries(layers: BrokerLayers, adapt: Adapt = _as_it_is) -> ResourceEntries:
    """Describe the configs of groups."""
    return ResourceEntries(GROUP_ROWS, ConfigSource.GROUP, layers, adapt)


def _named(rows: Rows, wanted: Names) -> Rows:
    return [row for row in rows if row.name in wanted] if wanted else rows


def _broker_values(row: ConfigRow, layers: BrokerLayers) -> list[DescribeConfigsSynonym]:
    sources = (
        (layers.node, ConfigSource.DYNAMIC_BROKER),
        (layers.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (layers.static, ConfigSource.STATIC_BROKER),
    )
    values = [
        _synonym(row, texts[row.name], source) for texts, source in sources if row.name in texts
    ]
    return [*values, _default(row)]


def _default(row: ConfigRow) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(
        name=row.name,
        value=None if row.default is None else _shown(row, text_of(row.default)),
        source=ConfigSource.DEFAULT,
    )


def _synonym(row: ConfigRow, text: str, source: ConfigSource) -> DescribeConfigsSynonym:
    with suppress(ConfigError):  # set before the rule was introduced: show it as stored
        text = text_of(parse(row, text))
    return DescribeConfigsSynonym(name=row.name, value=_shown(row, text), source=source)


def _shown(row: ConfigRow, text: str) -> str | None:
    """Mask passwords, as Kafka does."""
    return None if row.type is ConfigType.PASSWORD else text


def _entry(
    row: ConfigRow, values: list[DescribeConfigsSynonym], read_only: bool = False
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=row.name,
        value=values[0].value,
        read_only=read_only,
        config_source=values[0].source,
        is_sensitive=row.type is ConfigType.PASSWORD,
        synonyms=tuple(values),
        config_type=row.type,
        documentation=row.documentation,
    )
