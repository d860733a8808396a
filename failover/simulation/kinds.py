"""The type of a group in a simulation, given by the first word of its id."""

from __future__ import annotations

from typing import Final

CONSUMER: Final = "consumer-"
"""A consumer group; its topics grow, appear and disappear."""

MIXED: Final = "mixed-"
"""A group whose members change between the classic and the consumer protocol."""


def is_modern(group_id: str) -> bool:
    """Return whether the group may have members of the consumer protocol."""
    return group_id.startswith((CONSUMER, MIXED))
