"""The operations on share state: initialize, write, read, delete, each on one partition.

They check a request in Kafka's order and with its messages, then emit the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.groups.share_state.batches import combined
from protocol.groups.share_state.state import UNCHANGED, ShareState
from protocol.records import (
    Record,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.share_state.context import ShareStateContext
    from protocol.groups.share_state.keys import SharePartition
    from protocol.records import ShareStateBatch

UPDATES_PER_SNAPSHOT: Final = "share.coordinator.snapshot.update.records.per.snapshot"

NO_START_OFFSET: Final = -1
NO_COUNT: Final = -1
NO_EPOCH: Final = -1
"""A state epoch or leader epoch that a request does not check."""

NO_STATE: Final = ShareSnapshotValue(
    snapshot_epoch=0,
    state_epoch=0,
    leader_epoch=0,
    start_offset=NO_START_OFFSET,
    delivery_complete_count=NO_COUNT,
    create_timestamp=0,
    write_timestamp=0,
    state_batches=(),
)
"""The summary of a partition without share state."""

BATCHES_MAX: Final = 52_000
"""The most batches of a write, and of a record: as many as Kafka's records of 1 MiB hold."""

TOO_LARGE: Final = "The share state has too many batches."

NEGATIVE_PARTITION: Final = "The partition id cannot be a negative number."
UNKNOWN_PARTITION: Final = "This server does not host this topic-partition."
OLD_LEADER_EPOCH: Final = "The leader epoch in the request is older than the epoch on the broker."
OLD_STATE_EPOCH: Final = (
    "The share coordinator rejected the request because the share-group state epoch did not match."
)


class StateWrite(NamedTuple):
    """What a write sets; ``start_offset`` -1: the start offset stays."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[ShareStateBatch, ...]


def find(ctx: ShareStateContext, share: SharePartition) -> ShareState | None:
    """Return the share state of a partition; None: it is not initialized."""
    state = ctx.found(share)
    return state if state is not None and state.is_initialized else None


def initialize(
    ctx: ShareStateContext, share: SharePartition, state_epoch: int, start_offset: int, now: int
) -> None:
    """Create share state, or start it again. Raises FENCED_STATE_EPOCH for an older state epoch."""
    _check_named(share)
    state = find(ctx, share)
    before = None if state is None else state.current()
    if before is not None and NO_EPOCH != state_epoch < before.state_epoch:
        raise KafkaError(ErrorCode.fenced_state_epoch, OLD_STATE_EPOCH)
    _check_exists(ctx, share)
    at_ms = ctx.wall.at(now)
    value = ShareSnapshotValue(
        snapshot_epoch=0 if before is None else before.snapshot_epoch + 1,
        state_epoch=state_epoch,
        leader_epoch=0,
        start_offset=start_offset,
        delivery_complete_count=NO_COUNT if start_offset == NO_START_OFFSET else 0,
        create_timestamp=at_ms,
        write_timestamp=at_ms,
        state_batches=(),
    )
    _emit_snapshot(ctx, share, value)


def write(ctx: ShareStateContext, share: SharePartition, written: StateWrite, now: int) -> None:
    """Change share state. Raises INVALID_REQUEST, FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH.

    Raises UNKNOWN_SERVER_ERROR, as Kafka, if a record cannot hold the share state.
    """
    _check_named(share)
    state = find(ctx, share)
    if state is None:
        raise _invalid("Write operation on uninitialized share partition not allowed.")
    if len(written.batches) > BATCHES_MAX:
        raise KafkaError(ErrorCode.unknown_server_error, TOO_LARGE)
    before = state.current()
    if NO_EPOCH != written.leader_epoch < before.leader_epoch:
        raise KafkaError(ErrorCode.fenced_leader_epoch, OLD_LEADER_EPOCH)
    if NO_EPOCH != written.state_epoch < before.state_epoch:
        raise KafkaError(ErrorCode.fenced_state_epoch, OLD_STATE_EPOCH)
    _check_exists(ctx, share)
    _emit(ctx, share, state, written._replace(leader_epoch=before.leader_epoch), now)


def read(
    ctx: ShareStateContext, share: SharePartition, leader_epoch: int, now: int
) -> ShareSnapshotValue:
    """Return share state, and note the leader epoch of the reader. Raises as :func:`write`."""
    _check_named(share)
    state = find(ctx, share)
    if state is None:
        raise _invalid("Read operation on uninitialized share partition not allowed.")
    found = state.current()
    if NO_EPOCH != leader_epoch < found.leader_epoch:
        raise KafkaError(ErrorCode.fenced_leader_epoch, OLD_LEADER_EPOCH)
    _check_exists(ctx, share)
    if leader_epoch not in (NO_EPOCH, found.leader_epoch):
        seen = StateWrite(
            found.state_epoch, leader_epoch, found.start_offset, found.delivery_complete_count, ()
        )
        _emit(ctx, share, state, seen, now)
    return found


def summary(ctx: ShareStateContext, share: SharePartition) -> ShareSnapshotValue:
    """Return share state to look at; that of a partition without any is :data:`NO_STATE`."""
    _check_named(share)
    _check_exists(ctx, share)
    state = find(ctx, share)
    return NO_STATE if state is None else state.current()


def delete(ctx: ShareStateContext, share: SharePartition) -> None:
    """Remove share state, if there is any."""
    _check_named(share)
    _check_exists(ctx, share)
    remove(ctx, share)


def remove(ctx: ShareStateContext, share: SharePartition) -> None:
    """Remove share state of a partition that may no longer exist."""
    state = ctx.found(share)
    if state is not None and state.update is not None:
        ctx.emit(Record(ShareUpdateKey(*share), None))
    if state is not None and state.snapshot is not None:
        ctx.emit(Record(ShareSnapshotKey(*share), None))


def _emit(
    ctx: ShareStateContext, share: SharePartition, state: ShareState, written: StateWrite, now: int
) -> None:
    """Write an update with all changes since the snapshot, or the next snapshot."""
    before = state.current()
    if state.updates >= ctx.configs.integer(UPDATES_PER_SNAPSHOT):
        start_offset = written.start_offset
        if start_offset == UNCHANGED:
            start_offset = before.start_offset
        at_ms = ctx.wall.at(now)
        snapshot = ShareSnapshotValue(
            snapshot_epoch=before.snapshot_epoch + 1,
            state_epoch=before.state_epoch,
            leader_epoch=written.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=written.delivery_complete_count,
            create_timestamp=at_ms,
            write_timestamp=at_ms,
            state_batches=_bounded((*before.state_batches, *written.batches), start_offset),
        )
        _emit_snapshot(ctx, share, snapshot)
        return
    start_offset, batches = state.changes()
    if written.start_offset != UNCHANGED:
        start_offset = written.start_offset
    update = ShareUpdateValue(
        snapshot_epoch=before.snapshot_epoch,
        leader_epoch=written.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=written.delivery_complete_count,
        state_batches=_bounded((*batches, *written.batches), start_offset),
    )
    ctx.emit(Record(ShareUpdateKey(*share), update))


def _bounded(batches: Iterable[ShareStateBatch], start_offset: int) -> tuple[ShareStateBatch, ...]:
    """Combine batches. Raises UNKNOWN_SERVER_ERROR if a record cannot hold the result."""
    found = combined(batches, start_offset)
    if len(found) > BATCHES_MAX:
        raise KafkaError(ErrorCode.unknown_server_error, TOO_LARGE)
    return found


def _emit_snapshot(
    ctx: ShareStateContext, share: SharePartition, snapshot: ShareSnapshotValue
) -> None:
    """Write a snapshot; the update of the one before must not stay in the log without it."""
    state = ctx.found(share)
    if state is not None and state.update is not None:
        ctx.emit(Record(ShareUpdateKey(*share), None))
    ctx.emit(Record(ShareSnapshotKey(*share), snapshot))


def _check_named(share: SharePartition) -> None:
    if share.topic_id is None:
        raise _invalid("The topic id cannot be null.")
    if share.partition < 0:
        raise _invalid(NEGATIVE_PARTITION)


def _check_exists(ctx: ShareStateContext, share: SharePartition) -> None:
    topic = None if share.topic_id is None else ctx.topics.by_id(share.topic_id)
    if topic is None or topic.partitions <= share.partition:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, UNKNOWN_PARTITION)


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, sentence)
