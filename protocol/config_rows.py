"""The traits of a config, and short ways to write rows of the tables of configs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
Value: TypeAlias = "int | float | bool | str | tuple[str, ...] | None"


class ConfigType(IntEnum):
    """A config's type; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(IntEnum):
    """How important a config is to users."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRow:
    """One config. ``low``, ``high`` and ``choices`` bound it; None and () mean no bound.

    If there is a ``pattern``, a regular expression, a string, or each one of a list, must match it
    completely.

    A group config takes its default from the broker config ``synonym`` and must lie between the
    broker configs ``floor`` and ``ceiling``. A ``dynamic`` broker config may change at run time.
    A ``distinct`` list is not empty and has no duplicates. ``aliases`` are other names of its
    elements. ``is_read`` is False for a config that Kafka has and nothing here needs: it is
    checked, stored and returned, without effect.
    """

    name: str
    type: ConfigType
    default: Value
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    distinct: bool = False
    aliases: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    pattern: str | None = None
    importance: Importance = Importance.MEDIUM
    dynamic: bool = False
    internal: bool = False
    synonym: str | None = None
    floor: str | None = None
    ceiling: str | None = None
    is_read: bool = True

    @property
    def documentation(self) -> str:
        """The documentation that DescribeConfigs returns."""
        return self.doc if self.is_read else f"{self.doc} Accepted, without effect."


def int_row(name: str, default: int, low: int | None, doc: str, **more: object) -> ConfigRow:
    """Return the row of an integer that is at least ``low``."""
    return ConfigRow(name=name, type=ConfigType.INT, default=default, low=low, doc=doc, **more)  # type: ignore[arg-type]


def text_row(name: str, default: Value, doc: str, **more: object) -> ConfigRow:
    """Return the row of a list, if the default is one, otherwise of a string."""
    kind = ConfigType.LIST if isinstance(default, tuple) else ConfigType.STRING
    return ConfigRow(name=name, type=kind, default=default, doc=doc, **more)  # type: ignore[arg-type]


def flag_row(name: str, default: bool, doc: str, **more: object) -> ConfigRow:
    """Return the row of a boolean."""
    return ConfigRow(name=name, type=ConfigType.BOOLEAN, default=default, doc=doc, **more)  # type: ignore[arg-type]


def without_effect(*rows: ConfigRow) -> tuple[ConfigRow, ...]:
    """Mark configs of Kafka's that nothing here reads."""
    return tuple(replace(row, is_read=False) for row in rows)


def table(*parts: tuple[ConfigRow, ...]) -> Mapping[str, ConfigRow]:
    """Return the rows of all parts by name."""
    return MappingProxyType({row.name: row for part in parts for row in part})


HIGH, LOW = Importance.HIGH, Importance.LOW

KAFKAS_ASSIGNORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"org.apache.kafka.coordinator.group.assignor.{name.capitalize()}Assignor": name
        for name in ("uniform", "range", "simple")
    }
    | {"org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor": "sticky"}
)
"""The class names of Kafka's own assignors, as a Kafka server is configured with them."""
