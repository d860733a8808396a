"""The groups that a node leads, as its memory has them: what the console shows.

The console asks for them every few seconds. They cost a coordinator little: no lease is confirmed,
so what they say may be out of date. Both are entries of DescribeConfigs (:mod:`.own_entries`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from failover.catalogue.cluster_view import ClusterView

LOOK: Final = "rollcall.look"
"""The entry of a group: its state, counts and sessions; ``null`` if it is not led here."""

GROUPS_FROM: Final = "rollcall.groups."
"""The entry of a broker, followed by a number: its groups from that one on, and the next number."""

ROWS_MAX: Final = 500
"""Groups of one page: a millisecond. Other requests are served before the next one is asked for."""

OVERLAP: Final = 20
"""So many groups of a page come again in the next: as many may be deleted, and none is missed."""

ROW_BYTES_MAX: Final = 31_000
"""A group with a longer row, because of its id, is not listed."""

ESCAPED: Final = 6
"""The most bytes of a character in JSON."""


def look_text(view: ClusterView, group_id: str, room_bytes: int, now: int) -> str:
    """Return a group as this node's memory has it; without sessions if their ids are too long."""
    found = view.led.look(group_id, now)
    if found is None:
        return "null"
    if ESCAPED * sum(map(len, found.sessions)) > room_bytes:
        found = found._replace(sessions={})
    return json.dumps(found._asdict())


def groups_text(view: ClusterView, start: int, room_bytes: int) -> str:
    """Return the rows of the groups that fit, and where the next ones begin; -1: there are none."""
    rows = view.led.rows(start, ROWS_MAX)
    following = start + ROWS_MAX - OVERLAP if len(rows) == ROWS_MAX else -1
    texts: list[str] = []
    room = room_bytes
    for number, row in enumerate(rows, start):
        text = json.dumps(row)
        if len(text) > ROW_BYTES_MAX:
            continue
        room -= len(text) + 1
        if room < 0 and texts:
            following = number
            break
        texts.append(text)
    return f'{{"next": {following}, "groups": [{",".join(texts)}]}}'
