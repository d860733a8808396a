"""The last events of a group's members, as an entry of DescribeConfigs (:mod:`.own_entries`).

Only the node that leads the group has them, in its memory. The stories of rebalances have those of
the time before (:mod:`.stories`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from protocol.stories import members
from protocol.stories.json_form import plain
from protocol.stories.story import Happened, cut

if TYPE_CHECKING:
    from failover.catalogue.cluster_view import ClusterView
    from protocol.groups.facts import MemberEvent

EVENTS: Final = "rollcall.events"
"""The name of the entry."""


def events_text(view: ClusterView, group_id: str, room_bytes: int) -> str:
    """Return the newest events that fit, the oldest first."""
    kept: list[str] = []
    room = room_bytes
    for event in reversed(view.led.events(group_id)):
        text = json.dumps(plain(_happened(event)))
        room -= len(text) + 2
        if room < 0:
            break
        kept.append(text)
    return f'{{"events": [{", ".join(reversed(kept))}]}}'


def _happened(event: MemberEvent) -> Happened:
    return Happened(
        time_ms=event.time_ms,
        what=event.kind,
        who=members.of_event(event),
        reason=cut(event.reason),
    )
