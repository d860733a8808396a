"""Decodes bytes to messages: kio's native reader, and the rules that Kafka adds to it.

kio refuses a tagged field that its schema does not know, where Kafka skips it so that clients may
be newer than the server (KIP-482); and it accepts a null array where the schema allows no null.
The first is rare, so such a message is decoded again in Python. The second is checked by a function
compiled per class, which costs nothing for a message without arrays.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kio.serial import entity_reader
from kio.serial._parse import get_field_reader
from kio.serial.readers import read_unsigned_varint

from protocol.wire.convert import default_of, unwrap
from protocol.wire.struct_readers import struct_reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

    from kio.static.protocol import Entity

Read: TypeAlias = "Callable[[bytes, int], tuple[Any, int]]"


LARGE: Final = 1 << 20
"""In requests with more bytes than this, elements are counted during decoding."""
TEXT_BYTES_MAX: Final = 0x7FFF
"""UTF-8 bytes of any string in a request: Kafka's readers refuse longer ones, in every version."""


class UnreadableError(Exception):
    """The bytes are not a valid message; the text says where decoding failed."""


@cache
def decoder(shape: type[Entity]) -> Callable[[bytes, int], Any]:
    """Make the function that decodes a message of ``shape`` from an offset on.

    Bytes after the message are ignored, as in Kafka.
    """
    if _has_tagged_struct(shape):
        return partial(_read_carefully, shape)
    native = entity_reader(shape)
    has_illegal_null = _null_check(shape)

    def decode(data: bytes, offset: int) -> Any:
        try:
            message, _ = native(data, offset)
        except KeyError:
            return _read_carefully(shape, data, offset)
        except Exception as error:
            raise UnreadableError(f"cannot read {shape.__name__}: {error}") from None
        if has_illegal_null is not None and has_illegal_null(message):
            raise UnreadableError(f"{shape.__name__} has null where it may not")
        return message

    return decode


HUGE_CLAIM: Final = re.compile(rb"[\x80-\xff]{3}[\x20-\xff]")
"""Bytes that, read as the varint length of an array, claim 64 million elements or more.

kio's native reader allocates as many elements as a compact array claims to have, and aborts the
process if there is not enough memory. Any message with these bytes, whatever they are (a -1, text),
is decoded in Python instead, where a length is checked against the number of bytes.
"""
SCANNED_BYTES: Final = 4_096
"""In a longer message these bytes are looked for by their classes, five times as fast."""

_CLASSES: Final = b"0" * 0x20 + b"1" * 0x60 + b"2" * 0x80
_HUGE: Final = (b"2221", b"2222")


def _has_huge_claim(data: bytes, offset: int) -> bool:
    if len(data) <= SCANNED_BYTES:
        return HUGE_CLAIM.search(data, offset) is not None
    classes = data.translate(_CLASSES)
    return classes.find(_HUGE[0], offset) >= 0 or classes.find(_HUGE[1], offset) >= 0


def _could_claim(shape: type[Entity]) -> bool:
    """Return whether a message has an array whose length is a varint."""
    if not shape.__flexible__:
        return False
    for column in fields(shape):
        kind, is_array, _ = unwrap(column)
        if is_array or (is_dataclass(kind) and _could_claim(kind)):  # type: ignore[arg-type]
            return True
    return False


@cache
def _claim_decoder(shape: type[Entity]) -> Callable[[bytes, int], Any]:
    """Make the function that decodes a message with HUGE_CLAIM in it: it may claim much, or not."""
    read = struct_reader(shape)

    def decode(data: bytes, offset: int) -> Any:
        try:
            return read(data, offset)[0]
        except Exception:
            return _read_carefully(shape, data, offset)

    return decode


class _Counted(bytes):
    """A message's bytes, and how many array elements may still be decoded from them."""

    left: int
    most: int


@cache
def request_decoder(shape: type[Entity], elements_max: int) -> Callable[[bytes, int], Any]:
    """Make a :func:`decoder` that refuses more than ``elements_max`` elements in all arrays.

    100 MB of empty structs would become gigabytes of objects and stall the process for seconds. So
    a message of more than LARGE bytes is decoded in Python, which counts the elements.
    """
    decode = decoder(shape)
    claims = HUGE_CLAIM.search if _could_claim(shape) else None
    decode_claim = _claim_decoder(shape) if claims else decode
    count_elements = _element_count(shape)
    has_long_text = _text_check(shape) if shape.__flexible__ else None
    few_bytes = min(SCANNED_BYTES, TEXT_BYTES_MAX, elements_max)

    def decode_request(data: bytes, offset: int) -> Any:
        if len(data) <= few_bytes:  # an element has at least one byte
            if claims is not None and claims(data, offset):
                return decode_claim(data, offset)
            return decode(data, offset)
        message = read(data, offset)
        if has_long_text is not None and len(data) > TEXT_BYTES_MAX and has_long_text(message):
            raise UnreadableError(f"a string is longer than {TEXT_BYTES_MAX} bytes")
        return message

    def read(data: bytes, offset: int) -> Any:
        if len(data) <= LARGE:
            if claims is not None and _has_huge_claim(data, offset):
                message = decode_claim(data, offset)
            else:
                message = decode(data, offset)
            if count_elements is not None and len(data) > elements_max:
                _check_count(count_elements(message), elements_max)
            return message
        counted = _Counted(data)
        counted.left = counted.most = elements_max
        return _read_carefully(shape, counted, offset)

    return decode_request


def _is_long(text: str | None) -> bool:
    if text is None or len(text) * 4 <= TEXT_BYTES_MAX:
        return False
    return len(text) > TEXT_BYTES_MAX or len(text.encode()) > TEXT_BYTES_MAX


@cache
def _text_check(shape: type[Entity]) -> Callable[[Any], bool] | None:
    """Compile "some string is too long"; None when the message has no strings.

    Only compact strings can be too long: the others have a length of 16 bits.
    """
    names: dict[str, Any] = {"is_long": _is_long}
    claims = []
    for index, column in enumerate(fields(shape)):
        kind, is_array, _ = unwrap(column)
        check = "is_long" if column.metadata.get("kafka_type") == "string" else None
        if is_dataclass(kind):
            inner = _text_check(kind)  # type: ignore[arg-type]
            if inner is not None:
                check = f"inner{index}"
                names[check] = inner
        if check is None:
            continue
        value = f"x.{column.name}"
        if is_array:
            claims.append(f"any([{check}(i) for i in {value} or ()])")
        else:
            claims.append(f"({value} is not None and {check}({value}))")
    if not claims:
        return None
    made: Callable[[Any], bool] = eval(f"lambda x: {' or '.join(claims)}", names)
    return made


def _count(data: bytes, length: int) -> None:
    if isinstance(data, _Counted):
        data.left -= length
        _check_count(data.most - data.left, data.most)


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise UnreadableError(f"it has more than {most} elements")


@cache
def _element_count(shape: type[Entity]) -> Callable[[Any], int] | None:
    """Compile the number of elements in all arrays of a message; None when it has no array."""
    names: dict[str, Any] = {}
    terms = []
    for index, column in enumerate(fields(shape)):
        kind, is_array, _ = unwrap(column)
        value = f"x.{column.name}"
        inner = _element_count(kind) if is_dataclass(kind) else None  # type: ignore[arg-type]
        if is_array:
            terms.append(f"len({value} or ())")
        if inner is not None:
            names[f"inner{index}"] = inner
            each = f"sum([inner{index}(i) for i in {value} or ()])"
            terms.append(each if is_array else f"({value} and inner{index}({value}) or 0)")
    if not terms:
        return None
    made: Callable[[Any], int] = eval(f"lambda x: {' + '.join(terms)}", names)
    return made


def _has_tagged_struct(shape: type[Entity]) -> bool:
    """Return whether a nullable struct is tagged: kio then misses the byte that marks a null."""
    for column in fields(shape):
        kind, is_array, nullable = unwrap(column)
        if is_dataclass(kind):
            if nullable and not is_array and "tag" in column.metadata:
                return True
            if _has_tagged_struct(kind):  # type: ignore[arg-type]
                return True
    return False


@cache
def _null_check(shape: type[Entity]) -> Callable[[Any], bool] | None:
    """Compile "an array that is not nullable is null"; None when there is no such array."""
    names: dict[str, Any] = {}
    claims = []
    for index, column in enumerate(fields(shape)):
        kind, is_array, nullable = unwrap(column)
        value = f"x.{column.name}"
        inner = _null_check(kind) if is_dataclass(kind) else None  # type: ignore[arg-type]
        if inner is not None:
            names[f"inner{index}"] = inner
        if is_array and not nullable:
            claims.append(f"{value} is None")
        if inner is not None and is_array:
            claims.append(f"any([inner{index}(i) for i in {value} or ()])")
        elif inner is not None:
            claims.append(f"({value} is not None and inner{index}({value}))")
    if not claims:
        return None
    made: Callable[[Any], bool] = eval(f"lambda x: {' or '.join(claims)}", names)
    return made


def _read_carefully(shape: type[Entity], data: bytes, offset: int) -> Any:
    """Decode a message in Python, skipping tagged fields that its schema does not know."""
    try:
        message = _careful(shape)(data, offset)[0]
    except Exception as error:
        raise UnreadableError(f"cannot read {shape.__name__}: {error}") from None
    has_illegal_null = _null_check(shape)
    if has_illegal_null is not None and has_illegal_null(message):
        raise UnreadableError(f"{shape.__name__} has null where it may not")
    return message


@cache
def _careful(shape: type[Entity]) -> Read:
    columns = fields(shape)
    plain = [(each.name, _field(shape, each)) for each in columns if "tag" not in each.metadata]
    tagged = {
        each.metadata["tag"]: (each.name, _field(shape, each))
        for each in columns
        if "tag" in each.metadata
    }
    defaults = {name: default_of(each) for each in columns if (name := each.name)}
    flexible = shape.__flexible__

    def read(data: bytes, offset: int) -> tuple[Any, int]:
        at = offset
        values = dict(defaults)
        for name, read_field in plain:
            values[name], size = read_field(data, at)
            at += size
        if flexible:
            at = _read_tags(data, at, tagged, values)
        return shape(**values), at - offset

    return read


def _read_tags(
    data: bytes, at: int, tagged: dict[int, tuple[str, Read]], values: dict[str, Any]
) -> int:
    """Decode a section of tagged fields into ``values``; return where it ends."""
    count, size = read_unsigned_varint(data, at)
    at += size
    for _ in range(count):
        tag, size = read_unsigned_varint(data, at)
        at += size
        length, size = read_unsigned_varint(data, at)
        at += size
        if length > len(data) - at:
            raise UnreadableError("a tagged field is longer than the message")
        if tag in tagged:
            name, read_field = tagged[tag]
            values[name], _ = read_field(data, at)
        at += length
    return at


def skip_tags(data: bytes, at: int) -> int:
    """Skip a header's tagged fields, none of which is known; return where they end."""
    try:
        return _read_tags(data, at, {}, {})
    except Exception as error:
        raise UnreadableError(f"cannot read the header's tagged fields: {error}") from None


def _field(shape: type[Entity], column: Field[Any]) -> Read:
    """Make the reader of one field; structs are also decoded in Python."""
    kind, is_array, nullable = unwrap(column)
    if not is_dataclass(kind):
        native = get_field_reader(
            shape,
            column,
            is_request_header=False,
            is_tagged_field="tag" in column.metadata,
        )
        return _counted(native, compact=shape.__flexible__) if is_array else native
    item = _careful(kind)  # type: ignore[arg-type]
    if is_array:
        return _array(item, compact=shape.__flexible__)
    if not nullable:
        return item
    return _nullable(item, is_null=_TAGGED_NULL if "tag" in column.metadata else _NULL)


def _array_length(data: bytes, offset: int, *, compact: bool) -> tuple[int, int]:
    """Decode the length of an array, -1 for null; return it and its size in bytes."""
    if compact:
        above, size = read_unsigned_varint(data, offset)
        length = above - 1
    else:
        size, length = 4, int.from_bytes(data[offset : offset + 4], "big", signed=True)
    if length > len(data) - offset:
        raise UnreadableError("an array is longer than the message")
    _count(data, max(length, 0))
    return length, size


def _counted(native: Read, *, compact: bool) -> Read:
    def read(data: bytes, offset: int) -> tuple[Any, int]:
        _array_length(data, offset, compact=compact)
        return native(data, offset)

    return read


def _array(item: Read, *, compact: bool) -> Read:
    def read(data: bytes, offset: int) -> tuple[Any, int]:
        length, at = _array_length(data, offset, compact=compact)
        if length < 0:
            return None, at
        items = []
        for _ in range(length):
            value, size = item(data, offset + at)
            items.append(value)
            at += size
        return tuple(items), at

    return read


# Any negative byte before a struct is Kafka's null, but before a tagged one it is a zero.
_NULL: Final = range(128, 256)
_TAGGED_NULL: Final = range(1)


def _nullable(item: Read, *, is_null: range) -> Read:
    def read(data: bytes, offset: int) -> tuple[Any, int]:
        if offset >= len(data):
            raise UnreadableError("the message ends early")
        if data[offset] in is_null:
            return None, 1
        value, size = item(data, offset + 1)
        return value, size + 1

    return read
