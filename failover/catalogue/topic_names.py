"""Which topic names are valid, internal, or too similar to another (Kafka's ``Topic`` rules)."""

from __future__ import annotations

import re
from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
"""The groups' log as clients see it: an internal topic led by the coordinators."""

SHARE_GROUP_STATE: Final = "__share_group_state"
"""The share coordinators' log as clients see it: an internal topic."""

OWN_LOGS: Final = (CONSUMER_OFFSETS, SHARE_GROUP_STATE)
"""The topics that are the coordinators' own logs."""

CLUSTER_METADATA: Final = "__cluster_metadata"
"""Kafka's metadata log; clients cannot create a topic of this name."""

INTERNAL: Final = frozenset({*OWN_LOGS, "__transaction_state"})
"""Names that Metadata marks as internal."""

NAME_LENGTH_MAX: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def why_invalid(name: str) -> str | None:
    """Return why a topic name is invalid, as a sentence, or None when it is valid."""
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
    """Return the key that colliding names share, or None for a name that cannot collide.

    Metric names turn '.' into '_', so Kafka rejects two topics that differ only in that.
    """
    if "." in name or "_" in name:
        return name.replace(".", "_")
    return None
