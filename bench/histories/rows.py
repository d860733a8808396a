"""Members' histories as rows: of any driver that has their events. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.histories.schema import (
    COMMITTING,
    ENDED,
    FETCHED,
    FINAL,
    GROUP,
    STARTED,
    HistoryRow,
)
from protocol.members.history import MemberHistoryKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from protocol.members.history import MemberHistoryEvent
    from protocol.wire.embedded import TopicPartition

GIVES_UP: Final = frozenset(
    {MemberHistoryKind.LOST, MemberHistoryKind.FAILED, MemberHistoryKind.LEFT}
)
"""After these a member owns nothing, whatever it held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLife:
    """One life of a member, as its driver recorded it.

    ``started_ms`` may be None where the driver does not know it. ``ended_ms`` is when the run ended
    the life; ``seen_ms`` when it was last observed: None if it had ended. ``holds`` and
    ``generation`` are what it had then. ``open_commits`` had no answer in the end.
    """

    group_id: str
    protocol: str
    member: str
    life: int = 1
    instance_id: str | None = None
    session_timeout_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    events: Sequence[MemberHistoryEvent] = ()
    seen_ms: int | None = None
    holds: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    open_commits: Sequence[Mapping[TopicPartition, int]] = ()


def life_rows(life: HistoryLife) -> Iterator[HistoryRow]:
    """Return the rows of one life, in order."""
    about = HistoryRow(
        kind="",
        time_ms=0,
        group_id=life.group_id,
        protocol=life.protocol,
        member=life.member,
        life=life.life,
        instance_id=life.instance_id,
    )
    sequence = 0
    if life.started_ms is not None:
        yield about._replace(
            kind=STARTED,
            time_ms=life.started_ms,
            sequence=sequence,
            session_timeout_ms=life.session_timeout_ms,
        )
    owned: tuple[TopicPartition, ...] = ()
    member_id = None
    is_open = life.ended_ms is not None
    for event, holds in zip(life.events, holdings(life.events, life.holds), strict=True):
        if is_open and life.ended_ms is not None and event.time_ms >= life.ended_ms:
            sequence, is_open = sequence + 1, False
            yield about._replace(
                kind=ENDED, time_ms=life.ended_ms, sequence=sequence, member_id=member_id
            )
        sequence, member_id = sequence + 1, event.member_id
        yield _event_row(about, event, sequence, owned, holds)
        owned = holds
    if is_open and life.ended_ms is not None:
        sequence += 1
        yield about._replace(
            kind=ENDED,
            time_ms=life.ended_ms,
            sequence=sequence,
            member_id=member_id,
            owned=[],
            revoked=_names(owned) or None,
        )
    elif life.seen_ms is not None:
        yield about._replace(
            kind=FINAL,
            time_ms=life.seen_ms,
            sequence=sequence + 1,
            member_id=member_id,
            generation=life.generation,
            owned=_names(life.holds),
        )
    yield from _open_commits(about, life, sequence + 2, member_id)


def _open_commits(
    about: HistoryRow, life: HistoryLife, sequence: int, member_id: str | None
) -> Iterator[HistoryRow]:
    """Return a row for each commit that may be there without having been acknowledged."""
    last_ms = life.seen_ms if life.ended_ms is None else life.ended_ms
    if last_ms is None:
        last_ms = max((event.time_ms for event in life.events[-1:]), default=life.started_ms or 0)
    for number, offsets in enumerate(life.open_commits):
        yield about._replace(
            kind=COMMITTING,
            time_ms=last_ms,
            sequence=sequence + number,
            member_id=member_id,
            offsets={f"{topic}-{index}": offset for (topic, index), offset in offsets.items()},
        )


def _event_row(
    about: HistoryRow,
    event: MemberHistoryEvent,
    sequence: int,
    owned: Sequence[TopicPartition],
    holds: Sequence[TopicPartition],
) -> HistoryRow:
    """Return the row of an event, by what its member owned before it and holds after it."""
    is_assigned = event.kind is MemberHistoryKind.ASSIGNED
    return about._replace(
        kind=str(event.kind),
        time_ms=event.time_ms,
        asked_ms=event.asked_ms,
        sequence=sequence,
        member_id=event.member_id,
        generation=event.generation,
        assigned=_names(event.partitions) if is_assigned else None,
        owned=_names(holds) if is_assigned or holds != owned else None,
        revoked=_names([each for each in owned if each not in holds]) or None,
        offsets=_offsets(event) or None,
        error=event.error,
    )


def group_row(
    group_id: str,
    protocol: str,
    time_ms: int,
    partitions: Sequence[TopicPartition],
    others: Sequence[TopicPartition] = (),
) -> HistoryRow:
    """Return the row of a group, whose members subscribe to these partitions.

    Some of them subscribe to the ``others`` for a time.
    """
    return HistoryRow(
        kind=GROUP,
        time_ms=time_ms,
        group_id=group_id,
        protocol=protocol,
        assigned=_names(others) or None,
        owned=_names(partitions),
    )


def mark_row(kind: str, time_ms: int, cause: str, group_id: str | None = None) -> HistoryRow:
    """Return the row of a change or a fault."""
    return HistoryRow(kind=kind, time_ms=time_ms, group_id=group_id, cause=cause)


def fetched_row(
    group_id: str, asked_ms: int, time_ms: int, offsets: Mapping[TopicPartition, int]
) -> HistoryRow:
    """Return the row of a group's committed offsets, which were asked for and returned then."""
    return HistoryRow(
        kind=FETCHED,
        time_ms=time_ms,
        asked_ms=asked_ms,
        group_id=group_id,
        offsets={f"{topic}-{index}": offset for (topic, index), offset in offsets.items()},
    )


def holdings(
    events: Sequence[MemberHistoryEvent], holds: tuple[TopicPartition, ...]
) -> list[tuple[TopicPartition, ...]]:
    """Return what a member owns after each event; ``holds`` is what it had in the end.

    A member that must join again gives its partitions up, if it does, with its next request: the
    event after it shows that.
    """
    found: list[tuple[TopicPartition, ...]] = []
    for number, event in enumerate(events):
        if event.kind in GIVES_UP:
            found.append(())
        elif event.kind is MemberHistoryKind.REBALANCING:
            rest = events[number + 1 : number + 2]
            found.append(rest[0].partitions if rest else holds)
        else:
            found.append(event.partitions)
    return found


def _names(partitions: Sequence[TopicPartition]) -> list[str]:
    return [f"{topic}-{index}" for topic, index in partitions]


def _offsets(event: MemberHistoryEvent) -> dict[str, int]:
    return {f"{topic}-{index}": offset for topic, index, offset in event.offsets}
