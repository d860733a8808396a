"""Rebuild from the log only the group whose handler raised.

The log is trusted, memory is not: :func:`rows_of` reads one group's records from the state on disk
and from the batches appended after it. :func:`cut` splits what a turn writes, so that a group that
cannot be written fails alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from failover.partition_kinds import title_of
from protocol.groups.limits import BATCH_BYTES, GROUP_BYTES_MAX
from protocol.reasons import shown
from protocol.wire.apis import API
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from failover.partitions.loading import Loading
    from protocol.groups.effects import Request
    from protocol.records import Record
    from storage.batch import Batch, RawRecord
    from storage.log import Log
    from storage.replica import Replica


UNKNOWN: Final = ErrorCode.unknown_server_error


class HandlerFailed(Exception):  # noqa: N818 - the event failed, the partition did not
    """A request's handler failed; the group concerned was rebuilt from the log."""


class PartitionFailed(Exception):  # noqa: N818 - Kafka's form of name
    """More than one group is in doubt: discard this memory and reload from the log."""


class TooLarge(Exception):  # noqa: N818 - Kafka's form of name: RecordTooLarge
    """A group writes more in one turn than its batch may hold."""


def rows_of(
    number: int,
    log: Log,
    replica: Replica,
    loading: Loading,
    prefixes: tuple[bytes, ...],
) -> Iterator[RawRecord]:
    """Read the appended records with this key prefix: committed ones first, in key order.

    What was gathered for the state may end before the replica's current commit offset.
    """
    state: dict[bytes, bytes] = {}
    for prefix in prefixes:
        state.update(log.state(number, prefix))
    rows = [*state.items()]
    batches: Iterable[Batch] = replica.uncommitted
    if loading.offset < replica.high_watermark:
        batches = _since(number, log, replica, loading.offset)
    applied_offset = log.stored(number).applied_offset
    if applied_offset == loading.compactor.applied_offset:
        rows = _over(state, loading.compactor.gathered(), prefixes)
    else:  # the state's next step was handed out and is not written yet
        batches = _since(number, log, replica, applied_offset)
    yield from sorted(rows)
    for batch in batches:
        if not batch.control:
            yield from (row for row in batch.records if row[0].startswith(prefixes))


def _over(
    state: dict[bytes, bytes], newer: Iterable[RawRecord], prefixes: tuple[bytes, ...]
) -> list[tuple[bytes, bytes]]:
    """Apply newer values over a state; None removes one."""
    for key, value in newer:
        if not key.startswith(prefixes):
            continue
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return [*state.items()]


def _since(number: int, log: Log, replica: Replica, offset: int) -> list[Batch]:
    batches = list(log.batches(number, offset))
    end_offset = batches[-1].end_offset if batches else offset
    unwritten = replica.appended_since(end_offset)
    if unwritten is None:
        raise PartitionFailed(f"{title_of(number)}: the batches from {end_offset} on are not there")
    return [*batches, *unwritten]


def encoded(
    records: Iterable[Record], encode: Callable[[Record], RawRecord]
) -> list[RawRecord] | None:
    """Encode a turn's records for one batch; None if they must be written group by group."""
    try:
        rows = [encode(record) for record in records]
    except Exception:
        return None  # :func:`cut` finds out which group it was
    return rows if _size(rows) <= BATCH_BYTES else None


def cut(
    turn: Mapping[Any, Record],
    encode: Callable[[Record], RawRecord],
    group_of: Callable[[Any], str],
) -> tuple[list[tuple[list[RawRecord], list[str]]], list[tuple[str, Exception]]]:
    """Split a turn into batches with their groups; also return the groups that do not fit."""
    shares: dict[str, list[Record]] = {}
    for key, record in turn.items():
        shares.setdefault(group_of(key), []).append(record)
    batches: list[tuple[list[RawRecord], list[str]]] = [([], [])]
    failed: list[tuple[str, Exception]] = []
    filled = 0
    for group_id, records in shares.items():
        try:
            parts = _parts([encode(record) for record in records])
        except Exception as error:
            failed.append((group_id, error))
            continue
        for part in parts:
            size = _size(part)
            if filled and filled + size > BATCH_BYTES:
                batches.append(([], []))
                filled = 0
            batches[-1][0].extend(part)
            batches[-1][1].append(group_id)
            filled += size
    return [batch for batch in batches if batch[0]], failed


def _parts(rows: list[RawRecord]) -> list[list[RawRecord]]:
    """Split one group's rows into atomic parts: all rows together, except removals, each alone."""
    size = _size(rows)
    if size <= BATCH_BYTES:
        return [rows]
    if any(value is not None for _, value in rows):
        if size > GROUP_BYTES_MAX:
            raise TooLarge(f"{size} bytes in one turn are more than {GROUP_BYTES_MAX}")
        return [rows]
    return [[row] for row in rows]


def _size(rows: Iterable[RawRecord]) -> int:
    return sum([len(key) + (len(value) if value else 0) for key, value in rows])


def shared_out(
    taken: Sequence[tuple[Request, Sequence[str] | None]], error: Exception
) -> tuple[list[tuple[Request, ErrorCode]], list[Request]]:
    """Return which requests fail because their group's records cannot be written, with their codes.

    ``taken`` are the requests answered in the turn, with the groups of each. If there are several
    and they are too large together, those that never wait for other members are the second result,
    to be handled one by one: each is answered from the log alone.
    """
    failed: list[tuple[Request, ErrorCode]] = []
    again: list[Request] = []
    for request, groups in taken:
        is_own = groups is not None and len(groups) == 1
        is_alone = len(taken) == 1 or not isinstance(error, TooLarge)
        if is_own and not is_alone and not API[request.api_key].group.waits_for_members:
            again.append(request)
        else:
            failed.append((request, code_of(error, request, is_own)))
    return failed, again


def code_of(error: Exception, request: Request, is_own: bool) -> ErrorCode:
    """Return the error code for a request whose group's records cannot be written.

    It is Kafka's. ``is_own``: the request is about that group alone. A request that only reads
    several groups is retried, after the group has been restored from the log.
    """
    api = API[request.api_key]
    retry_error = api.retry_error
    if not is_own and retry_error is not None and not api.writes(request.message):
        return retry_error
    if isinstance(error, TooLarge):
        return api.group.too_large
    return ErrorCode.unknown_server_error


def about(told: Any) -> str | None:
    """Return the group of a fact or a task; None if it has none."""
    group_id: str | None = getattr(told, "group_id", None)
    return group_id


def asked(request: Request) -> str:
    """Describe the client and its request, for the log."""
    api = API.get(request.api_key)
    name = f"API {request.api_key}" if api is None else api.name
    client = request.client
    return f"{name} {request.api_version} from {shown(client.client_id)} ({client.host})"
