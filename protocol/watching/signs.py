"""The last signs of a member whose records went, of a group that is not classic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.consumer.group import ConsumerGroupMember
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT
from protocol.watching.gains import Gains
from protocol.watching.gone import LastSigns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.groups.modern.reconcile import MemberAssignment
    from protocol.watching.memory import Gone, ModernMemory
    from protocol.watching.outlook import Outlook


def last_signs(outlook: Outlook, group_id: str, memory: ModernMemory, gone: Gone) -> LastSigns:
    """Return what the records have of a member before it went."""
    session_ms = gone.member.session_timeout_ms
    gains = memory.gained.get(gone.member_id, Gains(0))
    last_ms, is_anothers = outlook.committed.last_own(group_id, _partitions(outlook, gone, gains))
    revoking_ms, went_ms = memory.revoking.get(gone.member_id), memory.went.get(gone.member_id)
    now = gone.time_ms
    return LastSigns(
        silent_ms=None if last_ms is None else max(now - last_ms, 0),
        is_anothers=is_anothers,
        session_ms=outlook.session_timeout_ms if session_ms is None else session_ms,
        is_assumed=session_ms is None,
        revoking_ms=None if revoking_ms is None else max(now - revoking_ms, 0),
        rebalance_ms=gone.member.rebalance_timeout_ms,
        away_ms=None if went_ms is None else max(now - went_ms, 0),
    )


def _partitions(outlook: Outlook, gone: Gone, gains: Gains[int]) -> Iterator[tuple[str, int, int]]:
    """Return the partitions that a member had and since when, where they have offsets."""
    if not isinstance(gone.member, ConsumerGroupMember):
        return
    for places in (gone.held.assigned, gone.held.revoking):
        for place in places:
            topic = outlook.topics.by_id(outlook.ctx.numbers.uuids[place >> TOPIC_SHIFT])
            if topic is not None:
                yield topic.name, place & INDEX_MASK, gains.of(place)


def note_gains(
    memory: ModernMemory,
    member_id: str,
    assignments: tuple[MemberAssignment | None, MemberAssignment],
    time_ms: int,
) -> None:
    """Note what a member got, by what it had before and has now."""
    before, after = assignments
    if before is not None and after.assigned.keys() <= before.assigned.keys():
        return  # most records: no set is made for them
    had = frozenset() if before is None else before.assigned.keys() | before.revoking.keys()
    if not after.assigned.keys() <= had:
        has = after.assigned.keys() | after.revoking.keys()
        memory.gained[member_id] = memory.gained.get(member_id, Gains(0)).more(had, has, time_ms)
