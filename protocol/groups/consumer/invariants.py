"""The invariants of a shard's consumer groups, in addition to those of all modern groups."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from protocol.groups.consumer.group import ConsumerGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.groups.context import Context


def broken(ctx: Context) -> Iterator[str]:
    """Return every invariant that does not hold."""
    for group_id, group in ctx.groups.items():
        if isinstance(group, ConsumerGroup):
            yield from (f"{group_id}: {sentence}" for sentence in _counts(group))


def _counts(group: ConsumerGroup) -> Iterator[str]:
    """Every maintained sum equals a recount."""
    members = group.members.values()
    asked = Counter(m.metadata.server_assignor for m in members if m.metadata.server_assignor)
    if asked != group.assignors:
        yield "the assignors are miscounted"
    classic = [m.metadata.classic_member_metadata for m in members]
    offers = [{each.name for each in m.supported_protocols} for m in classic if m is not None]
    if len(offers) != group.classic_members or Counter(
        name for names in offers for name in names
    ) != Counter(group.protocols):
        yield "the classic members are miscounted"
