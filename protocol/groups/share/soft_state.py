"""What the leader of a share group keeps for it; it is lost at failover."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from protocol.groups.share.state_topics import StateTopics
    from protocol.groups.topics import Topics


@dataclass(slots=True, eq=False)
class InitializationState:
    """When the share state of each initializing topic was last asked for (Unix ms).

    ``checked``: the topics, the share state and the subscribed topics for which nothing was left to
    ask for. ``last_asked``: the topic that was last asked for.
    """

    asked_ms: dict[UUID, int] = field(default_factory=dict)
    checked: tuple[Topics, StateTopics, int] | None = None
    last_asked: str = ""
