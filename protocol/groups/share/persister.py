"""Share state as the group coordinator asks for it: created, deleted.

There is no share coordinator yet. Until then every request succeeds at once and nothing is kept, as
with Kafka's ``NoOpStatePersister``: there is no ShareFetch either that could deliver a record, so
there is nothing to lose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from protocol.groups.context import Context
    from protocol.groups.share.group import ShareGroup
    from protocol.groups.share.state_topics import StateTopic

    Done = Callable[[Context, str, Mapping[UUID, StateTopic], int], None]


def initialize(
    ctx: Context, group: ShareGroup, topics: Mapping[UUID, StateTopic], now: int, done: Done
) -> None:
    """Create the share state of partitions; ``done`` is called when it exists."""
    done(ctx, group.group_id, topics, now)
