"""The leader of each partition, as far as this node knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.log import NOBODY
from storage.messages import Leading

if TYPE_CHECKING:
    from collections.abc import Iterator


class Leaders:
    """The newest leader known of each partition: the highest epoch wins.

    An epoch has one leader, so hearing of an epoch again changes nothing. A leader that cannot be
    reached is kept until a newer one is known.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}

    def learn(self, partition: int, epoch: int, node_id: int) -> bool:
        """Note a leader; return whether that changed anything."""
        if epoch <= self._known.get(partition, (-1, NOBODY))[0]:
            return False
        self._known[partition] = (epoch, node_id)
        return True

    def resigned(self, partition: int) -> None:
        """Note that the known leader, this node, has stopped leading."""
        epoch, _ = self._known[partition]
        self._known[partition] = (epoch, NOBODY)

    def of(self, partition: int) -> int:
        """Return the node that leads a partition, -1 when none is known."""
        return self._known.get(partition, (-1, NOBODY))[1]

    def led_by(self, node_id: int) -> list[int]:
        """Return the groups' partitions that a node leads, as far as known here."""
        return [number for number, led in self.by_partition().items() if led == node_id]

    def by_partition(self) -> dict[int, int]:
        """Return the leaders of the groups' partitions; those without one are left out."""
        return {
            partition: node_id
            for partition, (_, node_id) in sorted(self._known.items())
            if partition >= 0 and node_id != NOBODY
        }

    def told(self) -> Iterator[Leading]:
        """Iterate over all known leaders, to tell a node whose link has come up."""
        for partition, (epoch, node_id) in sorted(self._known.items()):
            if node_id != NOBODY:
                yield Leading(partition, epoch, node_id)
