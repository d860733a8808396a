"""The last signs of a member whose records went, of a group that is not classic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.consumer.group import ConsumerGroupMember
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT
from protocol.watching.gone import LastSigns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.watching.memory import Gone, ModernMemory
    from protocol.watching.outlook import Outlook


def last_signs(outlook: Outlook, group_id: str, memory: ModernMemory, gone: Gone) -> LastSigns:
    """Return what the records have of a member before it went."""
    session_ms = gone.member.session_timeout_ms
    last_ms = outlook.committed.last_ms(group_id, _partitions(outlook, gone))
    is_own = last_ms is not None and last_ms >= memory.gained.get(gone.member_id, 0)
    revoking_ms, went_ms = memory.revoking.get(gone.member_id), memory.went.get(gone.member_id)
    now = gone.time_ms
    return LastSigns(
        silent_ms=max(now - last_ms, 0) if last_ms is not None and is_own else None,
        is_anothers=last_ms is not None and not is_own,
        session_ms=outlook.session_timeout_ms if session_ms is None else session_ms,
        is_assumed=session_ms is None,
        revoking_ms=None if revoking_ms is None else max(now - revoking_ms, 0),
        rebalance_ms=gone.member.rebalance_timeout_ms,
        away_ms=None if went_ms is None else max(now - went_ms, 0),
    )


def _partitions(outlook: Outlook, gone: Gone) -> Iterator[tuple[str, int]]:
    """Return the partitions that a member had, where they have offsets that it committed."""
    if not isinstance(gone.member, ConsumerGroupMember):
        return
    for places in (gone.held.assigned, gone.held.revoking):
        for place in places:
            topic = outlook.topics.by_id(outlook.ctx.numbers.uuids[place >> TOPIC_SHIFT])
            if topic is not None:
                yield topic.name, place & INDEX_MASK
