"""Encodes messages as bytes, with kio's writers.

kio's writer reads fields by name, so it takes any version of a message that has them. It is Python
and walks the fields: 2.5 µs for the smallest answer, 14 µs for a JoinGroup's. Answers that a server
returns repeatedly as the very same object are therefore encoded once (:data:`remembering`); so are
the structs that one message has many times (:data:`protocol.wire.convert.SHARED_ITEMS`). A struct
whose bytes exist already is copied (:mod:`protocol.wire.written`).
"""

from __future__ import annotations

import io
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kio.serial import entity_writer
from kio.serial._serialize import get_field_writer
from kio.serial.writers import compact_array_writer, legacy_array_writer

from protocol.wire.convert import SHARED_ITEMS, default_of, once_each, unwrap
from protocol.wire.written import WRITTEN_STRUCTS, WrittenAssignment

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

    from kio.static.protocol import Entity

Encode: TypeAlias = "Callable[[Any], bytes]"
Write: TypeAlias = "Callable[[Any, Any], None]"
remembering: Final = once_each
"""Cache the bytes of the last few thousand messages, recognised by identity alone."""

PRESENT: Final = b"\x01"
"""What precedes a nullable struct that is not null."""


@cache
def encoder(shape: type[Entity]) -> Encode:
    """Make the function that encodes a message as the bytes of ``shape``."""
    write = _writer(shape)

    def encode(message: Any) -> bytes:
        buffer = io.BytesIO()
        write(buffer, message)
        return buffer.getvalue()

    return encode


@cache
def _is_special(shape: type[Entity]) -> bool:
    """Whether a struct has others that are not to be written one field after the other."""
    kinds: list[Any] = [unwrap(column)[0] for column in fields(shape)]
    structs = [kind for kind in kinds if hasattr(kind, "__dataclass_fields__")]
    return any(
        kind.__name__ in SHARED_ITEMS or kind in WRITTEN_STRUCTS or _is_special(kind)
        for kind in structs
    )


@cache
def _writer(shape: type[Entity]) -> Write:
    """Return kio's writer, or one that encodes each shared struct once, and copies written ones."""
    whole: Write = entity_writer(shape)
    if not _is_special(shape):
        return whole
    plain: list[tuple[str, Write]] = []
    tagged: list[tuple[str, object]] = []
    for column in fields(shape):
        if "tag" in column.metadata:
            tagged.append((column.name, default_of(column)))
        else:
            plain.append((column.name, _field_writer(shape, column)))

    def write(buffer: io.BytesIO, message: Any) -> None:
        for name, default in tagged:
            if getattr(message, name) != default:
                whole(buffer, message)
                return
        for name, write_field in plain:
            write_field(buffer, getattr(message, name))
        if shape.__flexible__:
            buffer.write(b"\0")

    return write


def _field_writer(shape: type[Entity], column: Field[Any]) -> Write:
    kind: Any
    kind, is_array, _ = unwrap(column)
    if is_array and hasattr(kind, "__dataclass_fields__"):
        is_shared = kind.__name__ in SHARED_ITEMS
        write_item = _write_once(encoder(kind)) if is_shared else _writer(kind)
        in_array: Any = compact_array_writer if shape.__flexible__ else legacy_array_writer
        made: Write = in_array(write_item)
        return made
    write: Write = get_field_writer(
        column, flexible=shape.__flexible__, is_request_header=False, is_tag=False
    )
    return _copy_or(write) if kind in WRITTEN_STRUCTS else write


def _copy_or(write: Write) -> Write:
    def write_field(buffer: io.BytesIO, item: Any) -> None:
        if isinstance(item, WrittenAssignment):
            buffer.write(PRESENT)
            buffer.write(item.written)
        else:
            write(buffer, item)

    return write_field


def _write_once(encode: Encode) -> Write:
    encode_once = once_each(encode)

    def write(buffer: io.BytesIO, item: Any) -> None:
        buffer.write(encode_once(item))

    return write
