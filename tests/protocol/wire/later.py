"""Messages as a later version may write them: tagged fields more than this version knows."""

from __future__ import annotations

from dataclasses import field, fields, is_dataclass, make_dataclass
from functools import cache
from types import GenericAlias
from typing import Any

from protocol.wire.convert import converter, unwrap
from protocol.wire.schema import Flexible
from protocol.wire.writers import encoder

LATER_TAG = 100


@cache
def _later(shape: type) -> type:
    """Give a class one tagged field more, and so each struct within it."""
    columns = [(each.name, _kind(each), _copied(each)) for each in fields(shape)]
    metadata = {"kafka_type": "string", "tag": LATER_TAG}
    columns.append(("later", str, field(default="", metadata=metadata)))
    return make_dataclass(
        f"Later{shape.__name__}",
        columns,
        bases=(Flexible,),
        namespace={"__version__": shape.__version__},  # type: ignore[attr-defined]
        frozen=True,
        kw_only=True,
        slots=True,
    )


def _kind(column: Any) -> Any:
    kind, is_array, nullable = unwrap(column)
    if not is_dataclass(kind):
        return column.type
    later: Any = _later(kind)  # type: ignore[arg-type]
    if is_array:
        later = GenericAlias(tuple, (later, ...))
    return later | None if nullable else later


def _copied(column: Any) -> Any:
    return field(default=column.default, metadata=column.metadata)


def _with_later(message: Any) -> Any:
    """Set the field in the message and in all structs within it."""
    values: dict[str, Any] = {"later": "more"}
    for column in fields(message):
        value = getattr(message, column.name)
        if column.name == "later":
            continue
        if isinstance(value, tuple):
            value = tuple(_with_later(each) if is_dataclass(each) else each for each in value)
        elif is_dataclass(value):
            value = _with_later(value)
        values[column.name] = value
    return type(message)(**values)


def written_later(message: Any) -> bytes:
    """Encode a flexible message with an unknown tagged field in it and in every struct within."""
    shape = type(message)
    later = _later(shape)
    return encoder(later)(_with_later(converter(shape, later)(message)))
