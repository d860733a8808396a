"""Convert objects of the core to bytes and back: a shard's state, events that are no requests.

The format is Python's pickle, because it keeps shared references and needs no code per class.
:func:`unpack` creates only objects of classes of ``protocol`` and of kio: code that uses no clock,
socket, thread or disk. Still, a file can change attributes of these classes: replay only files that
you trust, with the version that wrote them.
"""

from __future__ import annotations

import io
import pickle
from copyreg import __newobj__  # type: ignore[attr-defined]  # typeshed leaves it out
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from operator import attrgetter, methodcaller
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.assignors.flat import FlatTargets
from protocol.config import Configs, ConfigType
from protocol.config_table import BROKER_CONFIGS
from protocol.groups.dispatch import Tables
from protocol.groups.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

SHARED: Final = (Configs, Tables, Topics)
"""Objects with many references: stored beside the bytes, by index, and packed once."""

PROTOCOL: Final = Configs.__module__.rpartition(".")[0]
"""The package of the pure core; in the wheel it is inside another package (decisions/wheel.md)."""

OTHER_CLASSES: Final = frozenset(
    {
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("datetime", "timedelta"),
        ("random", "Random"),
        ("uuid", "UUID"),
        *(("builtins", name) for name in ("bytearray", "dict", "frozenset", "int", "list", "set")),
        ("copyreg", "_reconstructor"),
    }
)
NUMPY_NAMES: Final = frozenset({"_frombuffer", "_reconstruct", "dtype", "ndarray", "scalar"})


class TooLargeError(Exception):
    """The packed object has more bytes than allowed."""


class NotReadableError(Exception):
    """Packed bytes name something that no recording contains; the message says what."""


def pack(value: object, shared: list[object], bytes_max: int) -> bytes:
    """Pack an object; :data:`SHARED` objects are added to ``shared``, unless they are there.

    Raises :class:`TooLargeError` as soon as the bytes exceed the limit.
    """
    out = _Bounded(bytes_max)
    packing = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
    packing.dispatch_table = _Reducers(shared)
    packing.dump(value)
    return out.getvalue()


def pack_shared(value: object) -> bytes:
    """Pack one of the :data:`SHARED` objects, without secrets."""
    if isinstance(value, Configs):
        return pickle.dumps(without_secrets(value))
    if isinstance(value, Topics):
        fields = [*value], dict(value.racks), dict(value.deleted)
        return pack(fields, [], 1 << 62)
    return pickle.dumps(None)


def unpack_shared(data: bytes, tables: Tables) -> object:
    """Return what :func:`pack_shared` packed; the tables are those of this program."""
    value = unpack(data, ())
    match value:
        case dict():
            return Configs(value)
        case (list() as topics, dict() as racks, dict() as deleted):
            return Topics(topics, racks, deleted)
        case _:
            return tables


def without_secrets(configs: Configs) -> dict[str, str]:
    """Return the broker configs that were set, without the passwords."""
    return {
        name: text
        for name, text in configs.overrides.items()
        if BROKER_CONFIGS[name].type is not ConfigType.PASSWORD
    }


def unpack(data: bytes, shared: Sequence[object]) -> Any:
    """Return what :func:`pack` packed. Raises :class:`NotReadableError`."""
    reading = _Unpickler(io.BytesIO(data))
    reading.shared = shared
    try:
        return reading.load()
    except NotReadableError:
        raise
    except Exception as error:
        raise NotReadableError(
            f"it cannot be read ({type(error).__name__}: {error}); use the version that wrote it"
        ) from error


class _Bounded(io.BytesIO):
    """Accepts only a limited number of bytes."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__()
        self._bytes_max = bytes_max

    def write(self, data: Any) -> int:
        written = super().write(data)
        if self.tell() > self._bytes_max:
            raise TooLargeError
        return written


class _Reducers(dict[type, "Callable[[Any], Any]"]):
    """Takes objects apart by type; pickle's own way with frozen dataclasses is slow."""

    def __init__(self, shared: list[object]) -> None:
        def reduce_shared(value: object) -> tuple[Any, ...]:
            for index, each in enumerate(shared):
                if each is value:
                    return _shared, (index,)
            shared.append(value)
            return _shared, (len(shared) - 1,)

        super().__init__(dict.fromkeys(SHARED, reduce_shared))
        self[MappingProxyType] = _reduce_mapping
        self[FlatTargets] = _reduce_targets
        self[type({}.keys())] = _reduce_keys

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        if issubclass(kind, type):
            raise KeyError(kind)  # classes are stored by name
        reduce: Callable[[Any], Any] = methodcaller("__reduce_ex__", pickle.HIGHEST_PROTOCOL)
        if is_dataclass(kind) and hasattr(kind, "__setstate__"):
            reduce = _by_fields([each.name for each in fields(kind)])
        elif issubclass(kind, Enum):
            reduce = _reduce_member
        self[kind] = reduce
        return reduce


def _by_fields(names: Sequence[str]) -> Callable[[Any], Any]:
    """Return what restores a frozen dataclass with slots: the values of its fields."""
    values = attrgetter("__class__", "__class__", *names)  # with one name the result is no tuple

    def reduce(value: Any) -> tuple[Any, ...]:
        _, kind, *state = values(value)
        return __newobj__, (kind,), state

    return reduce


class _Unpickler(pickle.Unpickler):
    shared: Sequence[object]

    def find_class(self, module: str, name: str) -> Any:
        if name == "_shared" and module.endswith(__name__.rpartition(".")[2]):
            return self.shared.__getitem__
        if name in BUILDERS and module.endswith(__name__.rpartition(".")[2]):
            return BUILDERS[name]
        package, _, rest = module.partition(".")
        if package != PROTOCOL and rest.partition(".")[0] == PROTOCOL.rpartition(".")[2]:
            package, _, rest = rest.partition(".")  # recorded by an installed wheel
        if package == PROTOCOL.rpartition(".")[2]:
            found = _attribute(f"{PROTOCOL}.{rest}", name)
            is_known = isinstance(found, type) and found.__module__.startswith(f"{PROTOCOL}.")
        elif package == "kio":
            found = _attribute(module, name)
            is_known = isinstance(found, type) and found.__module__.startswith("kio.")
        else:
            is_known = (module, name) in OTHER_CLASSES
            is_known |= package == "numpy" and name in NUMPY_NAMES
            found = _attribute(module, name) if is_known else None
        if not is_known:
            raise NotReadableError(f"it names {module}.{name}, which no recording has in it")
        return found


def _attribute(module: str, name: str) -> Any:
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


# --- classes that pickle cannot handle, or handles in another way than needed here


def _shared(index: int) -> object:
    raise AssertionError(f"the unpickler has its own, for {index}")


def _mapping(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


def _targets(member_ids: Sequence[str], ends: Any, buffer: bytes) -> FlatTargets:
    return FlatTargets(member_ids, ends, memoryview(buffer))


def _reduce_mapping(value: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return _mapping, (dict(value),)


def _reduce_keys(value: Set[Any]) -> tuple[Any, ...]:
    """Store the keys of a dictionary, such as the partitions of a member, as a set."""
    return frozenset, (list(value),)


def _reduce_member(value: Enum) -> tuple[Any, ...]:
    """Store a member of an enumeration by value; some patch releases of Python call ``getattr``."""
    return value.__class__, (value.value,)


def _reduce_targets(value: FlatTargets) -> tuple[Any, ...]:
    return _targets, (list(value.member_ids), value.ends, bytes(value.buffer))


BUILDERS: Final = {each.__name__: each for each in (_mapping, _targets)}
