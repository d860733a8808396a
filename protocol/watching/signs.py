"""The last signs of a member whose records went, of a group that is not classic.

What a partition had committed when a member got it is not the member's own. That is noted where the
commits are, by the topic's name; while that is not known, the time is kept instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.groups.consumer.group import ConsumerGroupMember
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT
from protocol.watching.gone import LastSigns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from protocol.groups.modern.reconcile import MemberAssignment
    from protocol.watching.memory import Gone, ModernMemory
    from protocol.watching.outlook import Outlook


def last_signs(outlook: Outlook, group_id: str, memory: ModernMemory, gone: Gone) -> LastSigns:
    """Return what the records have of a member before it went."""
    session_ms = gone.member.session_timeout_ms
    gained = memory.gained.get(gone.member_id, {})
    last = outlook.committed.last(group_id, _partitions(outlook, gone, gained))
    revoking_ms, went_ms = memory.revoking.get(gone.member_id), memory.went.get(gone.member_id)
    now = gone.time_ms
    return LastSigns(
        silent_ms=None if last.time_ms is None else max(now - last.time_ms, 0),
        is_anothers=last.is_anothers,
        session_ms=outlook.session_timeout_ms if session_ms is None else session_ms,
        is_assumed=session_ms is None,
        revoking_ms=None if revoking_ms is None else max(now - revoking_ms, 0),
        rebalance_ms=gone.member.rebalance_timeout_ms,
        away_ms=None if went_ms is None else max(now - went_ms, 0),
    )


def note_gain(
    outlook: Outlook, memory: ModernMemory, key: Any, gain: tuple[MemberAssignment | None, Any, int]
) -> None:
    """Note which partitions a member has got: what it had before, has now, and when (Unix ms)."""
    held, member, time_ms = gain
    if not isinstance(member, ConsumerGroupMember):
        return
    group_id, member_id = key.group_id, key.member_id
    has, had = member.assignment.assigned, {} if held is None else held.assigned
    if has.keys() <= had.keys():
        return  # so it is with most records
    kept = () if held is None else held.revoking
    for place in has:
        if place in had or place in kept:
            continue
        number = place >> TOPIC_SHIFT
        name = outlook.topics.name_of(outlook.ctx.numbers.uuids[number])
        if name is None:
            memory.gained.setdefault(member_id, {})[number] = time_ms
        else:
            outlook.committed.hand_over(group_id, ((name, place & INDEX_MASK),))


def _partitions(
    outlook: Outlook, gone: Gone, gained: Mapping[int, int]
) -> Iterator[tuple[str, int, int]]:
    """Return the partitions that a member had, where they have offsets that it committed."""
    if not isinstance(gone.member, ConsumerGroupMember):
        return
    for places in (gone.held.assigned, gone.held.revoking):
        for place in places:
            number = place >> TOPIC_SHIFT
            topic = outlook.topics.by_id(outlook.ctx.numbers.uuids[number])
            if topic is not None:
                yield topic.name, place & INDEX_MASK, gained.get(number, 0)
