"""The groups that a node leads as rows of a list, for the console."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from protocol.groups.shard import GroupShard

COLUMNS: Final = ("group_id", "group_type", "state", "members", "rebalances", "lately")
ROWS_AT_ONCE: Final = 500
"""Groups of one slice: half a millisecond. Requests are served between slices."""


async def group_rows(
    shards: Iterable[GroupShard], rebalances: Callable[[str], tuple[int, int]]
) -> dict[str, list[Any]]:
    """Return the groups of ``shards`` in columns; groups that come or go meanwhile may be missed.

    ``rebalances`` returns how often a group has rebalanced, in all and lately.
    """
    rows: list[tuple[Any, ...]] = []
    for shard in shards:
        left = iter(tuple(shard.group_ids))
        while ids := tuple(islice(left, ROWS_AT_ONCE)):
            for group_id in ids:
                summary = shard.summary(group_id)
                if summary is not None:
                    said = summary.group_type, summary.state, summary.members
                    rows.append((group_id, *said, *rebalances(group_id)))
            await asyncio.sleep(0)
    columns = zip(*rows, strict=True) if rows else ((),) * len(COLUMNS)
    return {name: list(values) for name, values in zip(COLUMNS, columns, strict=True)}
