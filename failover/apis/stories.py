"""The history of a group's rebalances, as an entry of DescribeConfigs (:mod:`.own_entries`).

Its value is JSON: what this node remembers, and from when on. Every node answers with what it knows
itself; ``rollcall explain`` asks all of them (``docs/explain.md``).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from failover.partition_kinds import GROUPS
from failover.routing import partition_for
from protocol.stories.json_form import plain
from protocol.stories.under_way import under_way

if TYPE_CHECKING:
    from failover.catalogue.cluster_view import ClusterView

STORIES: Final = "rollcall.rebalances"
"""The name of the entry."""

UNDER_WAY_BYTES_MAX: Final = 8_000
"""The most bytes of what is said of a rebalance under way; longer names are left out."""


def stories_text(view: ClusterView, group_id: str, room_bytes: int, now: int) -> str:
    """Return what this node remembers of a group: the newest stories that fit, the oldest first.

    The leader also says what the group waits for, if it rebalances at ``now`` (Unix ms).
    """
    known = view.history.of_group(group_id)
    now_told = _under_way(view, group_id, now)
    room = room_bytes - len(now_told)
    kept: list[bytes] = []
    for entry in reversed(known.entries):
        room -= len(entry.data) + 1
        if room < 0:
            break
        kept.append(entry.data)
    count = view.configs.integer("offsets.topic.num.partitions")
    number = GROUPS.number(partition_for(group_id, count))
    head = {
        "node_id": view.node_id,
        "is_leader": view.leaders.get(number) == view.node_id,
        "since_ms": known.since_ms,
        "dropped": known.dropped + len(known.entries) - len(kept),
    }
    stories = b",".join(reversed(kept)).decode("utf-8", "replace")
    return f'{json.dumps(head)[:-1]}, "under_way": {now_told}, "stories": [{stories}]}}'


def _under_way(view: ClusterView, group_id: str, now: int) -> str:
    """Return what a group led here waits for as JSON, ``null`` if it does not rebalance."""
    awaiting = view.led.awaiting(group_id)
    if awaiting is None:
        return "null"
    told = under_way(awaiting, now)
    text = json.dumps(plain(told))
    if len(text) > UNDER_WAY_BYTES_MAX:
        told = replace(told, awaited=(), more=told.more + len(told.awaited), who=None, reason="")
        text = json.dumps(plain(told))
    return text
