"""What must hold of a shard between any two events; simulation and tests check all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.dispatch import reactions

if TYPE_CHECKING:
    from protocol.groups.context import Context


def broken(ctx: Context) -> list[str]:
    """Name everything that does not hold, one sentence each; an empty list is good news."""
    return [sentence for check in reactions(ctx.tables, "broken") for sentence in check(ctx)]
