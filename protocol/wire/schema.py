"""Declares messages of our own in kio's entity form, every version of them in one class.

kio's generated modules hold one class per version. Here a log record's value is declared once, in
its newest version; :func:`at_version` derives the class of an older version from the
``since``/``until`` of the fields.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform, get_args, get_origin

from kio.static.constants import EntityType

if TYPE_CHECKING:
    from kio.static.protocol import Entity

NEWEST = 32767
T = TypeVar("T")


def wire(
    kafka_type: str | None = None,
    *,
    default: object = MISSING,
    tag: int | None = None,
    absent: object = MISSING,
    versions: tuple[int, int] = (0, NEWEST),
) -> Any:
    """Declare a field: ``kafka_type`` as in Kafka's schemas, None for a struct or array of them.

    ``versions`` are the first and the last with the field; in others it is read as ``default``.
    ``absent`` is the value of a missing tagged field, where that differs from the default for
    callers who leave it out.
    """
    metadata: dict[str, object] = {"versions": versions}
    if kafka_type is not None:
        metadata["kafka_type"] = kafka_type
    if tag is not None:
        metadata["tag"] = tag
    if absent is not MISSING:
        metadata["absent"] = absent
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


class Legacy:
    """Fixed fields, no tagged fields."""

    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = False


class Flexible:
    """Compact encodings and tagged fields (KIP-482)."""

    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True


@dataclass_transform(frozen_default=True, field_specifiers=(wire,))
def key(cls: type[T]) -> type[T]:
    """Declare a record's key: frozen, hashable, and short enough to be built by position."""
    return dataclass(frozen=True, slots=True)(cls)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(wire,))
def entity(cls: type[T]) -> type[T]:
    """Declare a record's value, or a struct within one."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


@cache
def at_version(cls: type[Entity], version: int, *, flexible: bool) -> type[Entity]:
    """Derive the class that kio encodes and decodes for one version of ``cls``."""
    columns = []
    for column in fields(cls):
        since, until = column.metadata["versions"]
        if not since <= version <= until:
            continue
        metadata = {name: item for name, item in column.metadata.items() if name != "versions"}
        if not flexible and "tag" in metadata:
            continue
        kind = _type_at_version(column.type, version, flexible)
        columns.append((column.name, kind, field(default=column.default, metadata=metadata)))
    form = Flexible if flexible else Legacy
    return make_dataclass(
        f"{cls.__name__}V{version}",
        columns,
        bases=(form,),
        namespace={"__version__": version},
        frozen=True,
        slots=True,
        kw_only=True,
    )


def _type_at_version(kind: Any, version: int, flexible: bool) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        return at_version(kind, version, flexible=flexible)
    if get_origin(kind) is tuple and is_dataclass(get_args(kind)[0]):
        inner = _type_at_version(get_args(kind)[0], version, flexible)
        return GenericAlias(tuple, (inner, ...))
    return kind
