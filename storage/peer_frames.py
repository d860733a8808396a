"""The encoding of messages between replicas: one msgpack array, the version number first.

Batches travel in their envelopes with their checksums, so a follower writes exactly what its leader
packed. Anything that does not have exactly the expected form is refused.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

import msgpack

from storage.batch import Batch, ChecksumError, pack, unpack
from storage.messages import (
    Append,
    Appended,
    ClockShows,
    InstallSnapshot,
    Joining,
    Leading,
    Message,
    ReplicaKey,
    SnapshotInstalled,
    SoftStateTold,
    TransferLeadership,
    Vote,
    Voted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from storage.batch import RawRecord

VERSION = 1

KINDS: tuple[type, ...] = (
    Vote,
    Voted,
    Append,
    Appended,
    InstallSnapshot,
    SnapshotInstalled,
    TransferLeadership,
    Joining,
    Leading,
    ClockShows,
    SoftStateTold,
)
"""The messages in the order of their numbers on the wire, from 0."""


class MessageError(Exception):
    """The bytes are not messages of this version; the text says what is wrong."""


def pack_messages(messages: Iterable[Message]) -> bytes:
    """Encode messages as the body of one frame."""
    rows: list[Any] = [VERSION]
    for message in messages:
        kind = type(message)
        row: list[Any] = [_NUMBERS[kind]]
        for name, encode in _ENCODERS[kind]:
            value = getattr(message, name)
            row.append(value if encode is None else encode(value))
        rows.append(row)
    packed: bytes = msgpack.packb(rows, use_bin_type=True)
    return packed


def unpack_messages(frame: bytes) -> tuple[Message, ...]:
    """Decode a frame; raises :class:`MessageError` if it is invalid."""
    try:
        rows = msgpack.unpackb(frame, use_list=False, raw=False, strict_map_key=True)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise MessageError("it is no msgpack") from error
    if not isinstance(rows, tuple) or not rows or not _is_int(rows[0]):
        raise MessageError("it has no version")
    if rows[0] != VERSION:
        raise MessageError(f"its version is {rows[0]}, not {VERSION}")
    return tuple(map(_read, rows[1:]))


def _read(row: object) -> Message:
    if not isinstance(row, tuple) or not row or not _is_int(row[0]):
        raise MessageError("a message has no kind")
    if not 0 <= row[0] < len(KINDS):
        raise MessageError(f"a message is of the unknown kind {row[0]}")
    kind = KINDS[row[0]]
    decoders = _DECODERS[kind]
    if len(row) != len(decoders) + 1:
        raise MessageError(f"{kind.__name__} has {len(row) - 1} fields, not {len(decoders)}")
    try:
        message: Message = kind(
            *[decode(value) for decode, value in zip(decoders, row[1:], strict=True)]
        )
    except (TypeError, ValueError, ChecksumError, msgpack.UnpackException) as error:
        raise MessageError(f"{kind.__name__} has a field that cannot be read") from error
    return message


def _is_int(value: object) -> bool:
    return type(value) is int


def _int(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _bool(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError
    return value


def _bytes(value: object) -> bytes:
    if type(value) is not bytes:
        raise TypeError
    return value


def _rows(value: object) -> tuple[Any, ...]:
    if type(value) is not tuple:
        raise TypeError
    return value


def _key(value: object) -> ReplicaKey:
    node_id, directory_id = _rows(value)
    if type(node_id) is not int or type(directory_id) is not str:
        raise TypeError
    return ReplicaKey(node_id, directory_id)


def _keys(value: object) -> tuple[ReplicaKey, ...]:
    return tuple(map(_key, _rows(value)))


def _batch(value: object) -> Batch:
    """Decode an envelope with a valid checksum: packed by a replica, or forged."""
    if type(value) is not bytes:
        raise TypeError
    batch = unpack(value)
    for number in (batch.base_offset, batch.leader_epoch, batch.timestamp_ms):
        _int(number)
    if not _records(batch.records):
        raise ValueError("a batch is never empty")
    _bool(batch.control)
    return batch


def _batches(value: object) -> tuple[Batch, ...]:
    return tuple(map(_batch, _rows(value)))


def _records(value: object) -> tuple[RawRecord, ...]:
    for key, content in _rows(value):
        if type(key) is not bytes or (content is not None and type(content) is not bytes):
            raise TypeError
    return value  # type: ignore[return-value]  # just checked


def _pack_key(key: ReplicaKey) -> tuple[int, str]:
    return key.node_id, key.directory_id


_Codec: TypeAlias = "tuple[Callable[[Any], object] | None, Callable[[object], Any]]"

_CODECS: dict[str, _Codec] = {
    "int": (None, _int),
    "bool": (None, _bool),
    "bytes": (None, _bytes),
    "ReplicaKey": (_pack_key, _key),
    "tuple[ReplicaKey, ...]": (lambda keys: list(map(_pack_key, keys)), _keys),
    "tuple[Batch, ...]": (lambda batches: list(map(pack, batches)), _batches),
    "tuple[RawRecord, ...]": (None, _records),
}
"""How a field of a type is encoded and decoded; None leaves it unchanged."""

_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
_ENCODERS = {
    kind: [(field.name, _CODECS[str(field.type)][0]) for field in fields(kind)] for kind in KINDS
}
_DECODERS = {kind: [_CODECS[str(field.type)][1] for field in fields(kind)] for kind in KINDS}
