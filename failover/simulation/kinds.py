"""What kind of group an id names, in a simulation: its first word says so."""

from __future__ import annotations

from typing import Final

CONSUMER: Final = "consumer-"
"""A consumer group; its topics grow, go and come."""

MIXED: Final = "mixed-"
"""A group whose members change between the classic and the consumer protocol."""


def is_modern(group_id: str) -> bool:
    """Tell whether members of the consumer protocol may be in the group."""
    return group_id.startswith((CONSUMER, MIXED))
