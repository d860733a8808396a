"""The records of a stopped node's log as JSON values: decoded, with their offsets and times."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.leader_change_message.v0 import LeaderChangeMessage
from kio.serial import entity_reader

from actors.cli.output.tables import kafka_id
from failover.machine_adapters import CATALOG_ADAPTER, MACHINES
from failover.partition_kinds import CATALOG, kind_of
from protocol.records import BadRecord, UnknownRecordType
from protocol.wire.embedded import decode_assignment, decode_subscription
from storage.control import LEADER_CHANGE_KEY, voters_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from failover.partitions.machine import MachineAdapter
    from storage.batch import Batch
    from storage.disk.rocks import RocksLog

ADAPTERS: Final[Mapping[Any, MachineAdapter]] = MappingProxyType(
    {CATALOG: CATALOG_ADAPTER, **{kind: row.adapter for kind, row in MACHINES.items()}}
)
EMBEDDED: Final[Mapping[str, Callable[[bytes], Any]]] = MappingProxyType(
    {"subscription": decode_subscription, "assignment": decode_assignment}
)
"""Fields of classic consumers whose bytes are messages of their own."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_read_leader_change = entity_reader(LeaderChangeMessage)


def log_rows(log: RocksLog, number: int, offset: int | None) -> Iterator[dict[str, Any]]:
    """Yield a partition's compacted state, then the records of its log, oldest first.

    From an ``offset`` on, only the log. Raises :class:`storage.log.LogError`.
    """
    adapter = ADAPTERS[kind_of(number)]
    if offset is None:
        for key, latest in log.state(number):
            yield _row(None, None, None, _decoded(adapter, key, latest))
    for batch in log.batches(number, offset or 0):
        moment = (_EPOCH + timedelta(milliseconds=batch.timestamp_ms)).isoformat(
            timespec="milliseconds"
        )
        for at, (key, value) in enumerate(batch.records, batch.base_offset):
            if at >= (offset or 0):
                said = _control(batch, key, value) if batch.control else None
                said = said or _decoded(adapter, key, value)
                yield _row(at, batch.leader_epoch, moment, said)


def _row(
    offset: int | None, epoch: int | None, moment: str | None, said: dict[str, Any]
) -> dict[str, Any]:
    return {"offset": offset, "epoch": epoch, "time": moment, **said}


def _decoded(adapter: MachineAdapter, key: bytes, value: bytes | None) -> dict[str, Any]:
    """Decode a record; one that this version does not know is shown as its bytes."""
    try:
        record = adapter.decode(key, value)
    except (BadRecord, UnknownRecordType) as error:
        said = {"type": f"({error})", "group": None}
        return {**said, "key": _as_json(key), "value": _as_json(value)}
    return {
        "type": type(record.key).__name__.removesuffix("Key"),
        "group": adapter.group_of(record.key),
        "key": _as_json(record.key),
        "value": _as_json(record.value),
    }


def _control(batch: Batch, key: bytes, value: bytes | None) -> dict[str, Any]:
    """Decode a record about the log itself."""
    voters = voters_in(batch)
    shown: object = _as_json(value)
    name = "(control)"
    if voters is not None:
        name, shown = "VotersChange", {"voters": [each.node_id for each in voters]}
    elif key == LEADER_CHANGE_KEY and value is not None:
        message = _read_leader_change(value, 0)[0]
        name, shown = "LeaderChange", _as_json(message)
    return {"type": name, "group": None, "key": None, "value": shown}


def _as_json(value: Any, *, is_consumer: bool = False) -> Any:
    """Return a value as JSON has it: ids as Kafka writes them, other bytes in base64."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, UUID):
        return kafka_id(value)
    if is_dataclass(value):
        is_consumer = is_consumer or getattr(value, "protocol_type", None) == "consumer"
        return {
            each.name: _field(each.name, getattr(value, each.name), is_consumer=is_consumer)
            for each in fields(value)
        }
    if isinstance(value, (tuple, list, set, frozenset)):
        return [_as_json(each, is_consumer=is_consumer) for each in value]
    if isinstance(value, dict):
        return {str(name): _as_json(each, is_consumer=is_consumer) for name, each in value.items()}
    return value if value is None or isinstance(value, (bool, int, str, float)) else str(value)


def _field(name: str, value: Any, *, is_consumer: bool) -> Any:
    decode = EMBEDDED.get(name) if is_consumer and isinstance(value, bytes) else None
    found = decode(value) if decode is not None and value else None
    return _as_json(value if found is None else found, is_consumer=is_consumer)
