"""Decodes flexible structs in Python, with a function made for each class.

kio's native reader is faster still, but trusts the length of an array (see
:data:`protocol.wire.readers.HUGE_CLAIM`). A function made here does not: it raises before it
allocates. It raises at whatever is unusual, too, tagged fields included, whether that is valid or
not: the careful reader then decides. What it returns is what the careful reader would return.
"""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kio.serial._parse import get_field_reader

from protocol.wire.compact import read_uvarint
from protocol.wire.convert import default_of, unwrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

    from kio.static.protocol import Entity

Read: TypeAlias = "Callable[[bytes, int], tuple[Any, int]]"


class UnusualError(Exception):
    """The message is unusual, or not valid."""


NUMBERS: Final = {
    "int8": ("b", "{}"),
    "int16": ("h", "{}"),
    "int32": ("i", "{}"),
    "int64": ("q", "{}"),
    "timedelta_i32": ("i", "timedelta(milliseconds={})"),
}
"""The types that are unpacked: how, and what is made of the number."""


@cache
def struct_reader(shape: type[Entity]) -> Read:
    """Make the function that decodes a struct; it returns that and where it ends."""
    source = _Source(shape)
    exec(compile(source.text(), f"<reader of {shape.__name__}>", "exec"), source.names)
    made: Read = source.names["read"]
    return made


class _Source:
    """The text of a class's function, and the names in it."""

    def __init__(self, shape: type[Entity]) -> None:
        assert shape.__flexible__
        self._shape = shape
        self._lines = ["def read(data, at):", " y = new(Target)", " size = len(data)"]
        self._codes = ""
        self._unpacked: list[str] = []
        self._sets: list[str] = []
        self.names: dict[str, Any] = {
            "Target": shape,
            "UnusualError": UnusualError,
            "new": object.__new__,
            "timedelta": timedelta,
            "uvarint": read_uvarint,
        }

    def text(self) -> str:
        columns = fields(self._shape)
        for index, column in enumerate(columns):
            self.names[f"set{index}"] = getattr(self._shape, column.name).__set__
            if "tag" in column.metadata:
                self.names[f"d{index}"] = default_of(column)
                self._lines.append(f" set{index}(y, d{index})")
        for index, column in enumerate(columns):
            if "tag" not in column.metadata:
                self._field(index, column)
        self._end_numbers()
        self._lines += [" if data[at]: raise UnusualError", " return y, at + 1"]
        return "\n".join(self._lines)

    def _field(self, index: int, column: Field[Any]) -> None:
        kind, is_array, nullable = unwrap(column)
        kafka_type = column.metadata.get("kafka_type", "")
        if kafka_type in NUMBERS and not is_array and not nullable:
            code, made = NUMBERS[kafka_type]
            self._codes += code
            self._unpacked.append(f"v{index},")
            self._sets.append(f" set{index}(y, {made.format(f'v{index}')})")
            return
        self._end_numbers()
        if is_dataclass(kind) and is_array:
            self.names[f"r{index}"] = struct_reader(kind)  # type: ignore[arg-type]
            self._array(index)
        elif kafka_type in ("string", "bytes") and not is_array:
            self._text(index, is_text=kafka_type == "string", nullable=nullable)
        elif is_dataclass(kind) or is_array:
            self._lines.append(" raise UnusualError")
        else:
            self.names[f"r{index}"] = get_field_reader(
                self._shape, column, is_request_header=False, is_tagged_field=False
            )
            self._lines += [f" v, n = r{index}(data, at)", " at += n", f" set{index}(y, v)"]

    def _length(self) -> None:
        """Read a length plus one."""
        self._lines += [" n = data[at]", " at += 1", " if n > 127: n, at = uvarint(data, at - 1)"]

    def _text(self, index: int, *, is_text: bool, nullable: bool) -> None:
        self._length()
        self._lines += [
            f" if not n: {f'set{index}(y, None)' if nullable else 'raise UnusualError'}",
            " else:",
            "  begin = at; at += n - 1",
            "  if at > size: raise UnusualError",
            f"  set{index}(y, data[begin:at]{'.decode()' if is_text else ''})",
        ]

    def _array(self, index: int) -> None:
        self._length()
        self._lines += [
            " if not n or n - 1 > size - at: raise UnusualError",
            " items = []",
            " for _ in range(n - 1):",
            f"  item, at = r{index}(data, at)",
            "  items.append(item)",
            f" set{index}(y, tuple(items))",
        ]

    def _end_numbers(self) -> None:
        if not self._codes:
            return
        unpacked = struct.Struct(">" + self._codes)
        name = f"u{len(self._lines)}"
        self.names[name] = unpacked.unpack_from
        values = " ".join(self._unpacked)
        self._lines += [f" {values} = {name}(data, at)", f" at += {unpacked.size}", *self._sets]
        self._codes, self._unpacked, self._sets = "", [], []
