"""The type of a group in a simulation, given by the first word of its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CONSUMER: Final = "consumer-"
"""A consumer group; its topics grow, appear and disappear."""

MIXED: Final = "mixed-"
"""A group whose members change between the classic and the consumer protocol."""

SHARE: Final = "share-group-"
"""A share group; its topics grow, appear and disappear. (Callers alone use ``share-0``.)"""

STREAMS: Final = "streams-group-"
"""A streams group, which may be converted offline to a classic group and back."""


STATEFUL, STATELESS = "0", "1"
"""The subtopologies of streams groups: the first reads a topic that never grows, and has state."""

SHARE_STATE: Final = tuple(f"share-state-{number}" for number in range(3))
"""Groups without members whose share state one client uses."""

Task = tuple[str, int]
"""A subtopology and an index."""


def subtopology_of(group_id: str, topic: str) -> str | None:
    """Return the subtopology that reads a topic, if this is a streams group and one does."""
    if not group_id.startswith(STREAMS):
        return None
    return {group_id: STATEFUL, f"{group_id}.more": STATELESS}.get(topic)


def tasks_in(tasks: Sequence[Any]) -> list[Task]:
    """Return the tasks in a request's or an answer's array."""
    return [(each.subtopology_id, index) for each in tasks for index in each.partitions]


def is_modern(group_id: str) -> bool:
    """Return whether the group may have members with server-side assignment."""
    return group_id.startswith((CONSUMER, MIXED, SHARE, STREAMS))


def allows_takeover(group_id: str) -> bool:
    """Return whether a config of the group may let static members replace others (KIP-345)."""
    return group_id.startswith((CONSUMER, MIXED))


def commits(group_id: str) -> bool:
    """Return whether the group has committed offsets."""
    return not group_id.startswith(SHARE)
