"""Parts that the stories of all group types have: events, moves, partitions that nobody served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.facts import GONE, MemberEventKind
from protocol.stories import members
from protocol.stories.story import (
    EVENTS_MAX,
    MOVES_MAX,
    NAMED_MAX,
    Happened,
    Move,
    Unserved,
    Wait,
    Waited,
    Who,
    cut,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from protocol.groups.facts import ExpectedWait, MemberEvent
    from protocol.stories.members import Names
    from protocol.stories.movement import Movement, Unit

TASKS: Final = "tasks"


def expected(wait: ExpectedWait, wait_ms: int) -> Waited:
    """Return the wait for instances that a group expected: those that did not come, or the last."""
    names = wait.missing or ((wait.last,) if wait.last else ())
    if not names:
        return Waited(what=Wait.INITIAL, wait_ms=wait_ms)
    return Waited(
        what=Wait.EXPECTED,
        wait_ms=wait_ms,
        who=tuple(Who(name=cut(each), instance_id=cut(each)) for each in names[:NAMED_MAX]),
        more=wait.more,
        ended="did not come" if wait.missing else "",
    )


def happened(events: Sequence[MemberEvent], names: Names) -> tuple[tuple[Happened, ...], int]:
    """Return the newest events, the oldest of them first, and how many more there were."""
    kept = tuple(
        Happened(
            time_ms=each.time_ms,
            what=each.kind,
            who=names.unique(members.of_event(each)),
            reason=cut(each.reason),
        )
        for each in events[-EVENTS_MAX:]
    )
    return kept, len(events) - len(kept)


def moves(movement: Movement, names: Names, units: str) -> tuple[tuple[Move, ...], int]:
    """Return the first moves, and how many more there were."""
    kept = tuple(
        Move(
            unit=unit_name(each.unit, units),
            before=names.of(each.before),
            after=names.of(each.after),
        )
        for each in movement.transfers[:MOVES_MAX]
    )
    return kept, len(movement.transfers) - len(kept)


def unserved(
    gone: Sequence[MemberEvent],
    held: Mapping[str, tuple[Unit, ...]],
    names: Names,
    until: tuple[int, str],
) -> tuple[tuple[Unserved, ...], int]:
    """Return what members that are gone had: nobody served it from their last sign of life on.

    ``until`` is when the rebalance ended (Unix ms), and what its units are called.
    """
    ended_ms, units = until
    found = []
    for event in gone:
        those = sorted(held.get(lasting_name(event), ()) or held.get(event.member_id, ()))
        if not those or (event.inferred and event.silent_ms is None):
            continue
        is_seen_leave = event.kind is MemberEventKind.LEFT and not event.inferred
        silent_ms = 0 if is_seen_leave else event.silent_ms or 0
        found.append(
            Unserved(
                who=names.unique(members.of_event(event)),
                count=len(those),
                units=tuple(unit_name(each, units) for each in those[:NAMED_MAX]),
                unserved_ms=max(ended_ms - event.time_ms + silent_ms, 0),
            )
        )
    return tuple(found[:NAMED_MAX]), max(len(found) - NAMED_MAX, 0)


def gone_of(events: Sequence[MemberEvent]) -> list[MemberEvent]:
    """Return the events of members that are gone, each member once."""
    return list({each.member_id: each for each in events if each.kind in GONE}.values())


def lasting_name(event: MemberEvent) -> str:
    """Return the name that a static member keeps; of another one its member id."""
    return event.group_instance_id or event.member_id


def unit_name(unit: Unit, units: str) -> str:
    """Return ``orders-3`` for a partition, ``0_3`` for a task."""
    name, index = unit
    return f"{name}_{index}" if units == TASKS else f"{name}-{index}"


def first(who: Sequence[Who]) -> tuple[tuple[Who, ...], int]:
    """Return the first members, and how many more there were."""
    return tuple(who[:NAMED_MAX]), max(len(who) - NAMED_MAX, 0)
