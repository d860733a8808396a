"""Copies a message to another version of its class: one function per pair of classes, made once.

Fields are matched by name. A field that the source lacks gets the target's default, or the zero of
its type; so does a null for a field that is not nullable. Changes that names cannot express
(LeaveGroup 2's one member against LeaveGroup 3's list) are passed in as ``special`` functions.

The function is generated as source text, like the ``__init__`` of dataclasses: a loop over fields
at run time would take several times as long as the copy.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import timedelta
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin

from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
Convert: TypeAlias = "Callable[[Any], Any]"
NO_SPECIALS: Final[Mapping[str, Convert]] = MappingProxyType({})
ZEROS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "string": "",
        "bytes": b"",
        "records": b"",
        "bool": False,
        "float64": 0.0,
        "error_code": ErrorCode.none,
        "timedelta_i32": timedelta(0),
        "timedelta_i64": timedelta(0),
        "uuid": None,
    }
)


SHARED_KEPT: Final = 4096
PARTITIONS_KEPT: Final = 65_536
"""Of all topics of Metadata together; copied and encoded, about 20 MB for each API version."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How many objects of one struct to keep: their sizes add up to ``size_max`` at most.

    An object of size 0 is not kept, nor is one that is larger than that.
    """

    size_of: Callable[[Any], int] = lambda _: 1
    size_max: int = SHARED_KEPT


BY_NUMBER: Final = Sharing()
SHARED_ITEMS: Final[Mapping[str, Sharing]] = MappingProxyType(
    {
        "CreatableTopicConfigs": BY_NUMBER,
        "DescribeConfigsResourceResult": BY_NUMBER,
        "MetadataResponseTopic": Sharing(lambda topic: len(topic.partitions), PARTITIONS_KEPT),
        "PartitionReplicas": BY_NUMBER,
    }
)
"""Structs of which one message has the same object many times (the configs and the placements that
topics share), or many messages have the same object (topics as Metadata shows them; one that is
missing has no partitions). Each object is copied, and encoded, once."""


def once_each(make: Callable[[Any], T], sharing: Sharing = BY_NUMBER) -> Callable[[Any], T]:
    """Cache the results for the last objects, recognised by identity alone.

    The object is kept with its result, so that its identity is not reused.
    """
    known: dict[int, tuple[Any, T]] = {}
    size = 0

    def make_once(item: Any) -> T:
        nonlocal size
        hit = known.get(id(item))
        if hit is not None:
            return hit[1]
        made = make(item)
        more = sharing.size_of(item)
        if 0 < more <= sharing.size_max:
            size += more
            if size > sharing.size_max:
                known.clear()
                size = more
            known[id(item)] = (item, made)
        return made

    return make_once


def if_shared_once(kind: Any, make: Callable[[Any], T]) -> Callable[[Any], T]:
    """Make what copies or encodes one struct: once for each object if those are shared."""
    sharing = SHARED_ITEMS.get(kind.__name__)
    return make if sharing is None else once_each(make, sharing)


def unwrap(column: Field[Any]) -> tuple[Any, bool, bool]:
    """Split a field's type: (type of the item, whether it is an array, whether it is nullable)."""
    kind: Any = column.type
    nullable = False
    if get_origin(kind) in (UnionType, Union):
        nullable = True
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is tuple:
        return get_args(kind)[0], True, nullable
    return kind, False, nullable


def default_of(column: Field[Any]) -> object:
    """Return the value of a field in a version that does not have it."""
    if "absent" in column.metadata:
        return column.metadata["absent"]
    if column.default is not MISSING:
        return column.default
    kind, is_array, nullable = unwrap(column)
    if nullable:
        return None
    if is_array:
        return ()
    if is_dataclass(kind):
        assert isinstance(kind, type)
        return kind(**{each.name: default_of(each) for each in fields(kind)})
    return ZEROS.get(column.metadata["kafka_type"], 0)


def blank(cls: type[T], **values: object) -> T:
    """Build a message from some of its fields; the others get their defaults."""
    defaults = {
        column.name: default_of(column)
        for column in fields(cls)  # type: ignore[arg-type]
        if column.name not in values and column.default is MISSING
    }
    return cls(**defaults, **values)


def converter(source: type, target: type, special: Mapping[str, Convert] = NO_SPECIALS) -> Convert:
    """Make the function that copies a ``source`` to a ``target``; the same class is not copied.

    ``special`` maps a field of the target to a function of the whole source message.

    The slots are filled one by one: a frozen dataclass's own ``__init__`` takes more than twice as
    long, and an offset commit is copied three times over (request, topic, partition).
    """
    if source is target and not special:
        return same
    names: dict[str, Any] = {"new": object.__new__, "Target": target}
    have = {column.name: column for column in fields(source)}
    lines = ["def convert(x):", " y = new(Target)"]
    for index, column in enumerate(fields(target)):
        names[f"set{index}"] = getattr(target, column.name).__set__
        if column.name in special:
            names[f"f{index}"] = special[column.name]
            value = f"f{index}(x)"
        elif column.name in have:
            value = _copied(have[column.name], column, index, names)
        else:
            names[f"d{index}"] = default_of(column)
            value = f"d{index}"
        lines.append(f" set{index}(y, {value})")
    exec("\n".join([*lines, " return y"]), names)
    made: Convert = names["convert"]
    return made


def _copied(source: Field[Any], target: Field[Any], index: int, names: dict[str, Any]) -> str:
    """Return the expression that copies one field."""
    kind, is_array, target_nullable = unwrap(target)
    source_kind, _, source_nullable = unwrap(source)
    value = f"x.{source.name}"
    copied = value
    if is_dataclass(kind) and source_kind is not kind:
        assert isinstance(kind, type)
        convert = converter(source_kind, kind)
        names[f"c{index}"] = if_shared_once(kind, convert)
        copied = f"tuple([c{index}(i) for i in {value}])" if is_array else f"c{index}({value})"
    if not source_nullable:
        return copied
    if target_nullable:
        return copied if copied is value else f"({copied}) if {value} is not None else None"
    names[f"d{index}"] = default_of(target)
    return f"({copied}) if {value} is not None else d{index}"


def same(message: Any) -> Any:
    """Return the message: the copy of one to its own class."""
    return message
