"""Numbers in requests and answers: operations that are allowed, and types of feature updates.

All operations are told as allowed, as none is forbidden (KIP-430). Each is the bit of its number in
Kafka's AclOperation.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))
TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))

NOT_ASKED: Final = -(2**31)
"""What is told to a client that did not ask."""


def told(operations: int, *, is_asked: bool) -> int:
    """Return the operations for an answer."""
    return operations if is_asked else NOT_ASKED


class UpgradeType(IntEnum):
    """What an update of a feature may do to its level; the numbers are those of UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
