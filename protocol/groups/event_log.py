"""A group's event log: the recent events of its members, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from protocol.groups.facts import MemberEvent, MemberEventKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.facts import Fact

EVENTS_KEPT: Final = 50


class FactSink(Protocol):
    """Receives facts: the shard's context."""

    def fact(self, fact: Fact) -> None:
        """Report what happened, for operators."""


class MemberEventLog:
    """The last events, oldest first; soft state of a group's leader."""

    __slots__ = ("_events",)

    def __init__(self, events: Iterable[MemberEvent] = ()) -> None:
        self._events = [*events]

    def note(self, ctx: FactSink, event: MemberEvent) -> None:
        """Report an event and log it."""
        self.remember(event)
        ctx.fact(event)

    def note_fenced(self, ctx: FactSink, zombie: MemberEvent) -> None:
        """Note a fenced member once, however often it comes back in a row."""
        last = self._events[-1] if self._events else None
        if (
            last is None
            or last.kind is not MemberEventKind.FENCED
            or last.member_id != zombie.member_id
        ):
            self.note(ctx, zombie)

    def remember(self, event: MemberEvent) -> None:
        """Log an event that is reported by other means; drop all but the most recent events."""
        self._events.append(event)
        if len(self._events) >= 2 * EVENTS_KEPT:
            del self._events[:-EVENTS_KEPT]

    def recent(self) -> list[MemberEvent]:
        """Return the recent events of the members."""
        return self._events[-EVENTS_KEPT:]


def fenced(group_id: str, member_id: str, instance_id: str | None, now: int) -> MemberEvent:
    """Return the event of a fenced member: another member has its instance id."""
    return MemberEvent(
        group_id=group_id,
        time_ms=now,
        kind=MemberEventKind.FENCED,
        member_id=member_id,
        group_instance_id=instance_id,
    )
