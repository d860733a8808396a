"""Rows of values: as text in aligned columns for people, as JSON for tools."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final
from uuid import UUID

from actors.cli.output.terminal import width_of_output
from actors.telemetry.log_messages import plain
from failover.columns import aligned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NOTHING: Final = "-"
NO_WORD: Final = re.compile(r"[^a-z0-9]+")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Align columns to the left; None and empty values are shown as ``-``.

    If standard output is a terminal, the table is fitted into it.
    """
    lines = [header, *([_cell(value) for value in row] for row in rows)]
    return aligned(lines, width=width_of_output())


def documents(
    header: Sequence[str], rows: Iterable[Sequence[object]]
) -> Iterator[dict[str, object]]:
    """Return each row as a JSON object with lower-case column names; a missing value is null."""
    names = [NO_WORD.sub("_", name.lower()).strip("_") for name in header]
    for row in rows:
        values = (_shown(value) for value in row)
        yield dict(zip(names, values, strict=True))


def kafka_id(number: UUID) -> str:
    """Write an id as Kafka does: base64url without padding."""
    return urlsafe_b64encode(number.bytes).decode().rstrip("=")


def _shown(value: object) -> object:
    return kafka_id(value) if isinstance(value, UUID) else value


def _cell(value: object) -> str:
    return NOTHING if value is None or value == "" else plain(str(_shown(value)))
