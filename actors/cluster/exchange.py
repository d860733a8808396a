"""Values on their way between processes that may run different versions of Rollcall.

Pickle stores a dataclass with slots, and a named tuple, as a list of values without names: a
version with one more field would read an older version's values into the wrong fields, or fail.
Here fields have their names. A field that the reader does not know is left out; one that the sender
did not have gets its default. What may change in a class: ``docs/decisions/versions.md``.
"""

from __future__ import annotations

import pickle
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Exchanged:
    """A value that is pickled with names, and unpickled as itself."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __reduce__(self) -> tuple[object, ...]:
        """Return how it is unpickled."""
        written = BytesIO()
        _NamingPickler(written, pickle.HIGHEST_PROTOCOL).dump(self._value)
        return opened, (written.getvalue(),)


def opened(data: bytes) -> Any:
    """Return the value that was sent. Programs of other versions refer to this function."""
    return pickle.loads(data)


def rebuilt(kind: type, values: Mapping[str, object]) -> object:
    """Return a value from its named fields. Programs of other versions refer to this function."""
    row = {
        field.name: values[field.name] if field.name in values else _default(kind, field)
        for field in _fields(kind)
    }
    if issubclass(kind, tuple):
        return kind.__new__(kind, **row)
    made = object.__new__(kind)
    for name, value in row.items():
        object.__setattr__(made, name, value)
    return made


class _Field(NamedTuple):
    name: str
    default: Any = MISSING
    default_factory: Any = MISSING


@cache
def _fields(kind: Any) -> tuple[_Field, ...]:
    """Return the fields of a class whose values are sent with names; none of any other class."""
    if issubclass(kind, tuple):
        defaults: Mapping[str, object] = getattr(kind, "_field_defaults", {})
        names = getattr(kind, "_fields", ())
        return tuple(_Field(name, defaults.get(name, MISSING)) for name in names)
    if not is_dataclass(kind) or kind.__reduce_ex__ is not object.__reduce_ex__:
        return ()
    return tuple(_Field(one.name, one.default, one.default_factory) for one in fields(kind))


def _default(kind: type, field: _Field) -> object:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    raise TypeError(f"{kind.__name__} came without {field.name}, which this version needs")


class _NamingPickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Return how a value with fields is unpickled."""
        kind: Any = type(value)
        if found := _fields(kind):
            return rebuilt, (kind, {name: getattr(value, name) for name, _, _ in found})
        return NotImplemented
