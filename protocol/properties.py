"""Java properties files, as ``java.util.Properties`` reads them."""

from __future__ import annotations

import re
from typing import Final

import javaproperties

from protocol.config import ConfigError

_LINE_END: Final = re.compile(r"\r\n?|\n")


def parse_properties(text: str) -> dict[str, str]:
    """Parse a properties file; if a name occurs twice, the last value counts.

    Blanks around a value are stripped, as Kafka trims values when it parses them. Raises
    :class:`ConfigError` for an invalid escape, a line without a name, and text that cannot be
    encoded (half of a surrogate pair).
    """
    properties: dict[str, str] = {}
    line = 1
    try:
        for part in javaproperties.parse(text):
            if isinstance(part, javaproperties.KeyValue):
                _check(part, line)
                properties[part.key] = part.value.strip()
            line += len(_LINE_END.findall(part.source))
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(str(error)) from None
    return properties


def _check(part: javaproperties.KeyValue, line: int) -> None:
    shown = part.source.strip().encode("unicode_escape").decode()
    if not part.key.strip():
        raise ConfigError(f"line {line} has no name before its value: {shown}")
    if not part.key.isprintable():
        raise ConfigError(f"line {line} has a name with a control character: {shown}")
    try:
        part.value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"line {line} has half of a surrogate pair: {shown}") from None
