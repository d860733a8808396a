"""Which topic names are allowed, internal, or too much like another (Kafka's ``Topic`` rules)."""

from __future__ import annotations

import re
from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
"""The groups' log as clients see it: an internal topic led by the coordinators."""

CLUSTER_METADATA: Final = "__cluster_metadata"
"""Kafka's metadata log; nobody may create a topic of this name."""

INTERNAL: Final = frozenset({CONSUMER_OFFSETS, "__transaction_state", "__share_group_state"})
"""Names that Metadata marks as internal."""

NAME_LENGTH_MAX: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def why_invalid(name: str) -> str | None:
    """Return what is wrong with a topic name as a sentence, or None when it is fine."""
    if not name:
        return "Topic name is invalid: it is empty."
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is reserved."
    if len(name) > NAME_LENGTH_MAX:
        return f"Topic name is invalid: '{name}' is longer than {NAME_LENGTH_MAX} characters."
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' has characters other than ASCII letters, digits, "
            "'.', '_' and '-'."
        )
    return None


def collision_key(name: str) -> str | None:
    """Return what two colliding names share, or None for a name that cannot collide.

    Metric names turn '.' into '_', so Kafka does not allow two topics that differ only in that.
    """
    if "." in name or "_" in name:
        return name.replace(".", "_")
    return None
