"""Batches of offsets in one delivery state, combined so that no two overlap.

Where batches overlap, the higher delivery count wins, then the higher delivery state, as in Kafka.
So the result does not depend on the order of the batches, and combining in steps gives the same.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from protocol.records import ShareStateBatch

if TYPE_CHECKING:
    from collections.abc import Iterable


def combined(batches: Iterable[ShareStateBatch], start_offset: int) -> tuple[ShareStateBatch, ...]:
    """Return the batches from the start offset on, without overlaps, in order.

    Neighbours in the same state become one batch. ``start_offset`` -1: keep all offsets.
    """
    ordered = sorted(
        (each for each in batches if each.first_offset <= each.last_offset >= start_offset),
        key=lambda each: each.first_offset,
    )
    merged: list[tuple[int, int, int, int]] = []
    waiting: list[tuple[int, int, int]] = []  # -count, -state, last offset: the winner is first
    at, index = start_offset, 0
    while index < len(ordered) or waiting:
        if not waiting:
            at = max(at, ordered[index].first_offset)
        while index < len(ordered) and ordered[index].first_offset <= at:
            batch = ordered[index]
            heappush(waiting, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            index += 1
        count, state, last = waiting[0]
        if last < at:
            heappop(waiting)
            continue
        if index < len(ordered):
            last = min(last, ordered[index].first_offset - 1)
        _append(merged, (at, last, -state, -count))
        at = last + 1
    return tuple(
        ShareStateBatch(first_offset=a, last_offset=z, delivery_state=state, delivery_count=count)
        for a, z, state, count in merged
    )


def _append(merged: list[tuple[int, int, int, int]], batch: tuple[int, int, int, int]) -> None:
    first, last, state, count = batch
    if merged and merged[-1][1] + 1 == first and merged[-1][2:] == (state, count):
        merged[-1] = (merged[-1][0], last, state, count)
    else:
        merged.append(batch)
