"""What a cluster's status says about its condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from failover.drills.drill import Condition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def holds(status: Mapping[str, Any], condition: Condition, dead: Collection[int] = ()) -> bool:
    """Whether LED or REPLICATED holds, by a status that no longer shows the processes ``dead``."""
    rows = status["coordinators"]
    if any(row["state"] != "Running" or row["pid"] in dead for row in rows):
        return False
    if any(row["leader"] is None for row in (status["catalog"], *status["partitions"])):
        return False
    return condition is Condition.LED or not status["under_replicated"]
