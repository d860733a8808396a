"""The new offsets that ``--reset-offsets`` can be asked for: a function per flag."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.session import note

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence

    from actors.cli.admin import CommittedOffset
    from actors.cli.client import AdminClient
    from protocol.wire.embedded import TopicPartition

    Offsets = Mapping[TopicPartition, int]


def bounded(offsets: Offsets, client: AdminClient) -> Offsets:
    """Limit offsets to the range of the log, with a note, as Kafka's tool does."""
    firsts = admin.offsets_at(client, offsets, admin.EARLIEST)
    ends = admin.offsets_at(client, offsets, admin.LATEST)
    bounded = {}
    for (topic, number), offset in offsets.items():
        first, end = firsts.get((topic, number), 0), ends.get((topic, number), offset)
        bounded[topic, number] = max(min(offset, end), first)
        if offset < first:
            note(f"{topic}-{number}: {offset} is before the earliest offset, using {first}")
        elif offset > end:
            note(f"{topic}-{number}: {offset} is after the latest offset, using {end}")
    return bounded


def _to_offset(
    client: AdminClient, partitions: Sequence[TopicPartition], _committed: Any, args: Namespace
) -> Offsets:
    return bounded(dict.fromkeys(partitions, args.to_offset), client)


def _shift_by(
    client: AdminClient,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    args: Namespace,
) -> Offsets:
    shifted = {
        partition: committed[partition].offset + args.shift_by
        for partition in partitions
        if partition in committed
    }
    return bounded(shifted, client)


def _to_earliest(
    client: AdminClient, partitions: Sequence[TopicPartition], _committed: Any, _args: Namespace
) -> Offsets:
    return admin.offsets_at(client, partitions, admin.EARLIEST)


def _to_latest(
    client: AdminClient, partitions: Sequence[TopicPartition], _committed: Any, _args: Namespace
) -> Offsets:
    return admin.offsets_at(client, partitions, admin.LATEST)


def _to_current(
    client: AdminClient,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    _args: Namespace,
) -> Offsets:
    """Keep committed offsets; use the latest offset where there is none."""
    without = [partition for partition in partitions if partition not in committed]
    ends = admin.offsets_at(client, without, admin.LATEST)
    return {
        partition: committed[partition].offset if partition in committed else ends[partition]
        for partition in partitions
        if partition in committed or partition in ends
    }


def _to_datetime(
    client: AdminClient, partitions: Sequence[TopicPartition], _committed: Any, args: Namespace
) -> Offsets:
    return _at_time(client, partitions, args.to_datetime)


def _by_duration(
    client: AdminClient, partitions: Sequence[TopicPartition], _committed: Any, args: Namespace
) -> Offsets:
    now_ms = time.time_ns() // 1_000_000
    return _at_time(client, partitions, max(now_ms - args.by_duration, 0))


def _at_time(
    client: AdminClient, partitions: Sequence[TopicPartition], timestamp_ms: int
) -> Offsets:
    """Return the first offsets of a time; as in Kafka, the latest where no record is so young."""
    found = admin.offsets_at(client, partitions, timestamp_ms)
    without = [partition for partition, offset in found.items() if offset < 0]
    for topic, number in without:
        note(f"{topic}-{number}: no record is of that time or later, using the latest offset")
    ends = admin.offsets_at(client, without, admin.LATEST) if without else {}
    known = {partition: offset for partition, offset in found.items() if offset >= 0}
    return dict(sorted({**known, **ends}.items()))


TARGETS: Final[Mapping[str, Callable[..., Offsets]]] = MappingProxyType(
    {
        "to_offset": _to_offset,
        "shift_by": _shift_by,
        "to_earliest": _to_earliest,
        "to_latest": _to_latest,
        "to_current": _to_current,
        "to_datetime": _to_datetime,
        "by_duration": _by_duration,
    }
)
FROM_COMMITTED: Final = frozenset({"shift_by", "to_current"})
"""The targets that begin with the committed offsets."""
