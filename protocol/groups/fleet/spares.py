"""How many members of a group are active: the others are spares, and have nothing.

An active member stays active. When one is gone, a spare takes its place with the next assignment:
static members and earlier ones first. Who is active follows from the log: it is who has a target,
or in a classic group partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups import settings as group_settings

if TYPE_CHECKING:
    from protocol.groups.context import Context

ACTIVE_MEMBERS: Final = "group.active.members"


def limit(ctx: Context, group_id: str) -> int:
    """Return how many members may be active; 0: all of them."""
    return group_settings.own_integer(ctx, group_id, ACTIVE_MEMBERS)
