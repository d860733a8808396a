"""The groups that a node leads, as its memory has them: configs that are only read.

The console asks for them every few seconds. They cost a coordinator little: no lease is confirmed,
so what they say may be out of date. Like ``rollcall.rebalances`` (:mod:`failover.apis.stories`)
they are there only for who asks for them by name, and their values are JSON.
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
"""Groups of one answer: a millisecond. Other requests are served before the next one."""


def look_text(view: ClusterView, group_id: str, room_bytes: int, now: int) -> str:
    """Return a group as this node's memory has it, with the sessions that fit."""
    found = view.led.look(group_id, now)
    if found is None:
        return "null"
    text = json.dumps(found._asdict())
    if len(text) > room_bytes:
        text = json.dumps(found._replace(sessions={})._asdict())
    return text


def groups_text(view: ClusterView, start: int, room_bytes: int) -> str:
    """Return the rows of the groups that fit, and where the next ones begin; -1: there are none."""
    rows = view.led.rows(start, ROWS_MAX)
    texts: list[str] = []
    room = room_bytes - len('{"next": , "groups": []}') - len(str(start + ROWS_MAX))
    for row in rows:
        text = json.dumps(row)
        room -= len(text) + 1
        if room < 0 and texts:
            break
        texts.append(text)
    is_end = len(texts) == len(rows) < ROWS_MAX
    following = -1 if is_end else start + len(texts)
    return f'{{"next": {following}, "groups": [{",".join(texts)}]}}'
