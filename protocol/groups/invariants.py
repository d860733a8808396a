"""The invariants of a shard between any two events; simulation and tests check all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.dispatch import reactions

if TYPE_CHECKING:
    from protocol.groups.context import Context


def broken(ctx: Context) -> list[str]:
    """Return every invariant that does not hold, one sentence each; empty when all hold."""
    return [sentence for check in reactions(ctx.tables, "broken") for sentence in check(ctx)]
