"""The form of log lines: text for people, or a JSON object a line; times are UTC in both."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.config import Configs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CONFIG: Final = "logging.format"
TEXT: Final = "text"
JSON: Final = "json"

FIELDS: Final = ("group", "member", "partition", "epoch")
"""What a line may be about, in fields of its own: passed to a logger as ``extra``."""


def utc(at_ms: float) -> str:
    """Return a time (Unix ms) in ISO 8601, such as ``2026-11-24T09:20:58.123Z``."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC).replace(tzinfo=None)
    return f"{at.isoformat(timespec='milliseconds')}Z"


class TextFormat(logging.Formatter):
    """A line: time, level, logger and message; the trace of an exception is on further lines."""

    def __init__(self, _node: str = "") -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        """Return the time of a line."""
        return utc(1000 * record.created)


class JsonFormat(logging.Formatter):
    """A JSON object: ``time``, ``level``, ``node``, ``logger``, ``message``, and known fields.

    ``node`` is the process, such as ``coordinator-2``; ``exception`` is a trace, if there is one.
    """

    def __init__(self, node: str = "") -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        """Return the object in one line."""
        row: dict[str, Any] = {
            "time": utc(1000 * record.created),
            "level": record.levelname,
            "node": self._node,
            "logger": record.name,
            "message": record.getMessage(),
        }
        row |= {name: value for name in FIELDS if (value := getattr(record, name, None))}
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row, ensure_ascii=False, default=str)


FORMATS: Final[Mapping[str, Callable[[str], logging.Formatter]]] = MappingProxyType(
    {TEXT: TextFormat, JSON: JsonFormat}
)
"""Each choice of the config ``logging.format``."""


def format_of(overrides: Mapping[str, str]) -> str:
    """Return the format of a cluster with these configs."""
    return Configs(overrides).text(CONFIG)
