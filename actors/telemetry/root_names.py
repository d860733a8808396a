"""The names of the root spans of rebalances: few, so that a backend can list and group them.

The group, the client and the trigger are attributes of these spans.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.stories.causes import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "rebalance: "

_WHAT: Final[Mapping[Cause, str]] = {
    Cause.JOINED: "member joined",
    Cause.REJOINED: "member rejoined",
    Cause.LEFT: "member left",
    Cause.ADMIN_REMOVED: "member removed by admin",
    Cause.POLL_TIMEOUT: "poll timeout",
    Cause.EXPIRED: "session expired",
    Cause.NOT_REJOINED: "member did not rejoin",
    Cause.NOT_SYNCED: "member did not sync",
    Cause.NOT_REVOKED: "member did not revoke",
    Cause.SUBSCRIBED: "subscription changed",
    Cause.UPDATED: "member updated",
    Cause.LEADER_REJOINED: "leader rejoined",
    Cause.GAVE_UP: "member gave up partitions",
    Cause.ENFORCED: "enforced by member",
    Cause.STATIC_REPLACED: "static member replaced",
    Cause.STATIC_CHANGED: "static member changed",
    Cause.TOPICS_CHANGED: "topics changed",
    Cause.REGEX_RESOLVED: "regex refreshed",
    Cause.SHARE_STATE: "share state initialized",
    Cause.TOPOLOGY_READY: "topology ready",
    Cause.TOPOLOGY_NOT_READY: "topology not ready",
    Cause.CONFIGS_CHANGED: "configs changed",
    Cause.CONVERTED: "group type changed",
    Cause.OVER_CAPACITY: "group over capacity",
    Cause.FAILOVER: "coordinator failover",
    Cause.GONE: "member gone",
    Cause.NOT_RECORDED: "cause not recorded",
    Cause.UNKNOWN: "cause unknown",
}

ROOT_NAMES: Final[Mapping[Cause, str]] = MappingProxyType(
    {cause: f"{PREFIX}{what}" for cause, what in _WHAT.items()}
)
"""The name of the root span, by what caused the rebalance."""

CAME_BACK: Final = "static member came back"
"""The name of the root span where a static member came back unchanged: no rebalance begins."""
