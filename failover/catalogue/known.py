"""Whether this node knows the catalogue well enough to lead groups.

A leader that does not know a topic takes its partitions from all members, and what a classic group
had of it is forgotten. A node that lost its disk has the groups' logs again before the catalogue
has a leader to copy it from, perhaps. So no replica of groups stands for election until all that
is committed of the catalogue was here once since the start. A node that still has a log of it does
not wait for that while nobody leads the catalogue: groups go on with what is known already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.partitions.partition import PartitionState
from storage.log import NOBODY

if TYPE_CHECKING:
    from failover.partitions.partition import Partition


class CatalogKnowledge:
    """Watches the catalogue's replica until it is known; it stays so until the process ends."""

    def __init__(self, catalog: Partition, patience_ms: int, now: int) -> None:
        """``patience_ms``: for how long a leader of the catalogue is waited for."""
        self._catalog = catalog
        self._patience_ms = patience_ms
        self._until_ms = now + patience_ms
        self.is_known = False

    def look(self, now: int) -> bool:
        """Look whether it has become known just now."""
        if self.is_known:
            return False
        catalog, is_overdue = self._catalog, now >= self._until_ms
        if is_overdue:
            self._until_ms = now + self._patience_ms
        if catalog.settled and catalog.replica.is_current:
            self.is_known = True
        elif is_overdue and catalog.state is not PartitionState.LOADING:
            # What of it may not be committed is not shown.
            self.is_known = catalog.replica.end_offset > 0 and catalog.replica.leader_id == NOBODY
        return self.is_known

    @property
    def due_ms(self) -> int | None:
        """When to look without any other reason."""
        is_waiting = not self.is_known and self._catalog.replica.end_offset > 0
        return self._until_ms if is_waiting else None
