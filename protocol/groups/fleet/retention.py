"""How long a group keeps the assignment of a static member whose session has expired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups import settings as group_settings

if TYPE_CHECKING:
    from protocol.groups.context import Context

RETENTION_MS: Final = "group.instance.assignment.retention.ms"


def retention_ms(ctx: Context, group_id: str) -> int:
    """Return the time in ms; 0: nothing is kept."""
    return group_settings.own_integer(ctx, group_id, RETENTION_MS)
