"""Whether this node knows the catalogue well enough to lead groups.

A leader that does not know a topic revokes its partitions from all members, and drops a classic
group's state for it. A node that lost its disk may have copied the groups' logs before the
catalogue has a leader to copy it from. So no replica of groups stands for election until this
process has once had all committed records of the catalogue. A node that still has a log of the
catalogue does not wait while the catalogue has no leader: groups continue with what is already
known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.partitions.partition import PartitionState
from storage.log import NOBODY

if TYPE_CHECKING:
    from failover.partitions.partition import Partition


class CatalogKnowledge:
    """Watches the catalogue's replica until it is known; it stays known until the process ends."""

    def __init__(self, catalog: Partition, patience_ms: int, now: int) -> None:
        """``patience_ms``: how long to wait for a leader of the catalogue."""
        self._catalog = catalog
        self._patience_ms = patience_ms
        self._until_ms = now + patience_ms
        self.is_known = False

    def look(self, now: int) -> bool:
        """Check whether the catalogue has just become known."""
        if self.is_known:
            return False
        catalog, is_overdue = self._catalog, now >= self._until_ms
        if is_overdue:
            self._until_ms = now + self._patience_ms
        if catalog.settled and catalog.replica.is_current:
            self.is_known = True
        elif is_overdue and catalog.state is not PartitionState.LOADING:
            # Uncommitted parts of it are not shown.
            self.is_known = catalog.replica.end_offset > 0 and catalog.replica.leader_id == NOBODY
        return self.is_known

    @property
    def due_ms(self) -> int | None:
        """When to check again even if no event arrives."""
        is_waiting = not self.is_known and self._catalog.replica.end_offset > 0
        return self._until_ms if is_waiting else None
