"""A topic as assignors see it."""

from __future__ import annotations

from typing import NamedTuple


class TopicRow(NamedTuple):
    """A topic as passed to an assignor run.

    ``racks`` has one tuple per partition: the sorted racks of its replicas. It is empty when racks
    do not matter to the group. ``assignable`` are the partitions that members may get, ascending;
    None: all of them.
    """

    topic_id: bytes  # 16 bytes
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()
    assignable: tuple[int, ...] | None = None
