"""Replay of encoded records into a partition's machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.partition_kinds import title_of
from protocol.records import BadRecord, UnknownRecordType
from storage.log import UnknownRecordError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from failover.partitions.machine import MachineAdapter, StateMachine
    from storage.batch import RawRecord


def replay(
    number: int, machine: StateMachine, adapter: MachineAdapter, rows: Iterable[RawRecord]
) -> tuple[int, int]:
    """Replay records; return how many there were, and how many of unknown types were skipped.

    Raises :class:`UnknownRecordError` for a record of a known type that cannot be read.
    """
    try:
        if adapter.replay_rows is not None:
            return adapter.replay_rows(machine, rows)
        return _replay_each(machine, adapter, rows)
    except BadRecord as error:
        raise UnknownRecordError(
            f"{title_of(number)}: {error}; use the program that wrote it."
        ) from error


def _replay_each(
    machine: StateMachine, adapter: MachineAdapter, rows: Iterable[RawRecord]
) -> tuple[int, int]:
    replayed = skipped = 0
    for key, value in rows:
        replayed += 1
        try:
            record = adapter.decode(key, value)
        except UnknownRecordType:
            skipped += 1  # written by a newer version: Kafka skips it too
        else:
            machine.replay(record)
    return replayed, skipped
