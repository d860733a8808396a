"""Configs as clients see them: every entry with its value, its source and its synonyms.

An entry's synonyms are the values it could have, the one in force first; its source is that of the
first.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

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
    from collections.abc import Iterable, Mapping


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

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


def broker_entries(layers: BrokerLayers) -> Iterable[DescribeConfigsResourceResult]:
    """Return every broker config of a node, by name."""
    return (
        _entry(row, _broker_values(row, layers), read_only=not row.dynamic)
        for row in _sorted(BROKER_CONFIGS)
    )


def cluster_entries(cluster: Mapping[str, str]) -> Iterable[DescribeConfigsResourceResult]:
    """Return the dynamic configs set for all nodes, and nothing else."""
    return (
        _entry(row, [_synonym(row, cluster[row.name], ConfigSource.DYNAMIC_DEFAULT_BROKER)])
        for row in _sorted(BROKER_CONFIGS)
        if row.name in cluster
    )


def topic_entries(
    overrides: Mapping[str, str], layers: BrokerLayers
) -> Iterable[DescribeConfigsResourceResult]:
    """Return every topic config of a topic, by name."""
    return _resource_entries(TOPIC_CONFIGS, overrides, ConfigSource.TOPIC, layers)


def group_entries(
    overrides: Mapping[str, str], layers: BrokerLayers
) -> Iterable[DescribeConfigsResourceResult]:
    """Return every group config of a group, by name."""
    return _resource_entries(GROUP_CONFIGS, overrides, ConfigSource.GROUP, layers)


def _resource_entries(
    table: Mapping[str, ConfigRow],
    overrides: Mapping[str, str],
    source: ConfigSource,
    layers: BrokerLayers,
) -> Iterable[DescribeConfigsResourceResult]:
    for row in _sorted(table):
        below = BROKER_CONFIGS.get(row.synonym or row.name)
        values = _broker_values(below, layers) if below else [_default(row)]
        if row.name in overrides:
            values.insert(0, _synonym(row, overrides[row.name], source))
        yield _entry(row, values)


def _sorted(table: Mapping[str, ConfigRow]) -> list[ConfigRow]:
    return [table[name] for name in sorted(table) if not table[name].internal]


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
    with suppress(ConfigError):  # set before the rule was made: show what is there
        text = text_of(parse(row, text))
    return DescribeConfigsSynonym(name=row.name, value=_shown(row, text), source=source)


def _shown(row: ConfigRow, text: str) -> str | None:
    """Show no password, as Kafka does."""
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
        documentation=row.doc,
    )
