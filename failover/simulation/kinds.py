"""The type of a group in a simulation, given by the first word of its id."""

from __future__ import annotations

from typing import Final

CONSUMER: Final = "consumer-"
"""A consumer group; its topics grow, appear and disappear."""

MIXED: Final = "mixed-"
"""A group whose members change between the classic and the consumer protocol."""

SHARE: Final = "share-group-"
"""A share group; its topics grow, appear and disappear. (Callers alone use ``share-0``.)"""

STREAMS: Final = "streams-group-"
"""A streams group, which may be converted offline to a classic group and back."""


def is_modern(group_id: str) -> bool:
    """Return whether the group may have members with server-side assignment."""
    return group_id.startswith((CONSUMER, MIXED, SHARE, STREAMS))


def allows_takeover(group_id: str) -> bool:
    """Return whether a config of the group may let static members replace others (KIP-345)."""
    return group_id.startswith((CONSUMER, MIXED))


def commits(group_id: str) -> bool:
    """Return whether the group has committed offsets."""
    return not group_id.startswith(SHARE)
