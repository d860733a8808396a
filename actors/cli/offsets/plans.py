"""Files of offsets to reset to, in the form of Kafka's tool: CSV, without a heading.

A row is ``topic,partition,offset`` if one group is asked for, else it begins with the group. A file
for one group may be of either form.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from actors.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from protocol.wire.embedded import TopicPartition

COLUMNS: Final = ("group", "topic", "partition", "offset")
FILE_BYTES_MAX: Final = 64 << 20
NUMBER_DIGITS_MAX: Final = 18


def read_plan(path: Path, group_id: str | None) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets in a file by group; ``group_id`` is that of rows without one.

    Raises BadInputError.
    """
    plan: dict[str, dict[TopicPartition, int]] = {}
    rows = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    form = ",".join(COLUMNS if group_id is None else COLUMNS[1:])
    try:
        for row in filter(None, rows):
            whole = [group_id, *row] if len(row) == len(COLUMNS) - 1 else row
            match whole:
                case [str(group), str(topic), str(partition), str(offset)] if (
                    topic and _is_number(partition) and _is_number(offset)
                ):
                    plan.setdefault(group, {})[topic, int(partition)] = int(offset)
                case _:
                    raise BadInputError(f"{path}, line {rows.line_num}: this is not {form}")
    except csv.Error as error:
        raise BadInputError(f"{path}, line {rows.line_num}: {error}") from None
    return plan


def as_csv(rows: Iterable[Sequence[object]], group_id: str | None) -> str:
    """Write rows of group, topic, partition and offset; without the group if only one was asked."""
    said = io.StringIO()
    writer = csv.writer(said, lineterminator="\n")
    writer.writerows(row if group_id is None else row[1:] for row in rows)
    return said.getvalue()


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise BadInputError(f"{path} is longer than {FILE_BYTES_MAX >> 20} MiB: split it")
        return data.decode()
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{path} is not text in UTF-8") from None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX
