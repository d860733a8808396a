"""The requests of brokers to the share coordinator: 83 to 87.

An error of one partition stands in its result. A request without topics, partitions or group has an
empty answer, as in Kafka. A partition may be named again: as in Kafka, each naming is an operation,
and the answer has the result of the last. The work of one request is bounded: what goes beyond is
refused as retriable.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.groups.share_state import store
from protocol.groups.share_state.keys import SharePartition
from protocol.groups.share_state.parts import is_empty
from protocol.groups.share_state.store import StateWrite
from protocol.records import ShareStateBatch
from protocol.wire import messages as m
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity

    from protocol.groups.effects import Request
    from protocol.groups.share_state.context import ShareStateContext

    Operation = Callable[[ShareStateContext, SharePartition, Any, int], Mapping[str, Any]]


OPERATION_WORK: Final = 32
"""The work of an operation on share state without batches, in batches."""

WORK_MAX: Final = 100_000
"""Refuse the rest of a request after so much work, in batches: a few tenths of a second."""

TOO_MUCH: Final = "The request is too large. Send the rest again."


def _check_work(work: int) -> None:
    if work >= WORK_MAX:
        raise KafkaError(ErrorCode.coordinator_load_in_progress, TOO_MUCH)


def _work_of(ctx: ShareStateContext, share: SharePartition, asked: Any) -> int:
    state = ctx.found(share)
    before = 0 if state is None else state.size
    return OPERATION_WORK + before + len(getattr(asked, "state_batches", ()))


def _initialize(
    ctx: ShareStateContext, share: SharePartition, asked: Any, now: int
) -> Mapping[str, Any]:
    store.initialize(ctx, share, asked.state_epoch, asked.start_offset, now)
    return {}


def _write(
    ctx: ShareStateContext, share: SharePartition, asked: Any, now: int
) -> Mapping[str, Any]:
    batches = tuple(
        ShareStateBatch(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            delivery_state=each.delivery_state,
            delivery_count=each.delivery_count,
        )
        for each in asked.state_batches
    )
    written = StateWrite(
        asked.state_epoch,
        asked.leader_epoch,
        asked.start_offset,
        asked.delivery_complete_count,
        batches,
    )
    store.write(ctx, share, written, now)
    return {}


def _read(ctx: ShareStateContext, share: SharePartition, asked: Any, now: int) -> Mapping[str, Any]:
    found = store.read(ctx, share, asked.leader_epoch, now)
    return {
        "state_epoch": found.state_epoch,
        "start_offset": found.start_offset,
        "state_batches": tuple(
            m.ReadShareStateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in found.state_batches
        ),
    }


def _delete(
    ctx: ShareStateContext, share: SharePartition, _asked: Any, _now: int
) -> Mapping[str, Any]:
    store.delete(ctx, share)
    return {}


def _summary(
    ctx: ShareStateContext, share: SharePartition, _asked: Any, _now: int
) -> Mapping[str, Any]:
    found = store.summary(ctx, share)
    return {
        "state_epoch": found.state_epoch,
        "leader_epoch": found.leader_epoch,
        "start_offset": found.start_offset,
        "delivery_complete_count": found.delivery_complete_count,
    }


def _handler(
    operation: Operation, shapes: tuple[type[Entity], type[Entity], type[Entity]]
) -> Callable[[ShareStateContext, Request, int], None]:
    response, topic_result, partition_result = shapes

    def handle(ctx: ShareStateContext, request: Request, now: int) -> None:
        """Carry out the operation on each partition of the request."""
        message: Any = request.message
        results: dict[Any, dict[int, Any]] = {}
        work = 0
        for topic in () if is_empty(message) else message.topics:
            rows = results.setdefault(topic.topic_id, {})
            for asked in topic.partitions:
                share = SharePartition(message.group_id, topic.topic_id, asked.partition)
                result: Any = blank(
                    partition_result, partition=asked.partition, error_code=ErrorCode.none
                )
                try:
                    _check_work(work)
                    work += _work_of(ctx, share, asked)
                    rows[asked.partition] = replace(result, **operation(ctx, share, asked, now))
                except KafkaError as error:
                    rows[asked.partition] = replace(
                        result, error_code=error.code, error_message=error.message
                    )
        told = tuple(
            blank(topic_result, topic_id=topic_id, partitions=tuple(rows.values()))
            for topic_id, rows in results.items()
        )
        ctx.reply(request.ticket, blank(response, results=told), message.group_id)

    return handle


HANDLERS: Final[Mapping[int, Callable[[ShareStateContext, Request, int], None]]] = MappingProxyType(
    {
        m.InitializeShareGroupStateRequest.__api_key__: _handler(
            _initialize,
            (
                m.InitializeShareGroupStateResponse,
                m.InitializeShareStateResult,
                m.InitializeSharePartitionResult,
            ),
        ),
        m.ReadShareGroupStateRequest.__api_key__: _handler(
            _read,
            (m.ReadShareGroupStateResponse, m.ReadShareStateResult, m.ReadSharePartitionResult),
        ),
        m.WriteShareGroupStateRequest.__api_key__: _handler(
            _write,
            (m.WriteShareGroupStateResponse, m.WriteShareStateResult, m.WriteSharePartitionResult),
        ),
        m.DeleteShareGroupStateRequest.__api_key__: _handler(
            _delete,
            (
                m.DeleteShareGroupStateResponse,
                m.DeleteShareStateResult,
                m.DeleteSharePartitionResult,
            ),
        ),
        m.ReadShareGroupStateSummaryRequest.__api_key__: _handler(
            _summary,
            (
                m.ReadShareGroupStateSummaryResponse,
                m.ReadShareStateSummaryResult,
                m.ReadSharePartitionSummaryResult,
            ),
        ),
    }
)
