"""The catalogue on a node that does not lead it: committed records, applied as they come.

The copy is kept on disk as a snapshot, so that a node that starts alone still knows the topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover import catalog_records
from failover.identity import CATALOG_PARTITION
from protocol.records import UnknownRecordType
from storage.log import ApplyState, InstallState, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from failover.catalog import Catalog
    from failover.effects import Published
    from storage.batch import RawRecord
    from storage.log import Log


class CatalogCopy:
    """A catalogue that follows what the leader publishes. ``offset`` is the next one it wants."""

    def __init__(self, new_catalog: Callable[[], Catalog], log: Log) -> None:
        self._new_catalog = new_catalog
        self._writes: list[Write] = []
        self.catalog = new_catalog()
        self.offset = log.stored(CATALOG_PARTITION).applied_offset
        self._replay(log.state(CATALOG_PARTITION))

    def apply(self, published: Published) -> bool:
        """Apply what was published; False when records before it are missing."""
        if published.snapshot:
            self.catalog = self._new_catalog()
            self._writes.append(
                InstallState(CATALOG_PARTITION, published.end_offset, 0, published.records)
            )
        elif published.offset == self.offset:
            self._writes.append(
                ApplyState(CATALOG_PARTITION, published.end_offset, 0, published.records)
            )
        else:
            return False
        self.offset = published.end_offset
        self._replay(published.records)
        return True

    def take_writes(self) -> list[Write]:
        """Take out what is to be written; it needs no sync, the leader has it."""
        writes, self._writes = self._writes, []
        return writes

    def _replay(self, records: Iterable[RawRecord]) -> None:
        for key, value in records:
            try:
                self.catalog.replay(catalog_records.decode(key, value))
            except UnknownRecordType:
                continue  # written by a newer version
