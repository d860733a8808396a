"""The racks of a group that a worker caches, as numbers.

A few nodes have a few racks, so tens of thousands of partitions have few different sets of racks. A
member on a rack without any replica is treated like one without a rack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from protocol.assignors.spec import NOBODY, Int32s, no_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from protocol.groups.effects import MemberRow
    from protocol.groups.topic_row import TopicRow


class CachedRacks:
    """Racks by number, and the racks of the present topics' partitions."""

    __slots__ = ("_numbers", "_of_partitions")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._of_partitions: tuple[Int32s, Int32s] | None = None

    def forget(self) -> None:
        """Note that the topics have changed."""
        self._of_partitions = None

    def arrays(
        self, topics: Sequence[TopicRow], rows: Sequence[MemberRow]
    ) -> tuple[Int32s, Int32s, Int32s]:
        """Return the racks of partitions (CSR) and of members; empty when they do not matter."""
        if not any(topic.racks for topic in topics) or all(row.rack_id is None for row in rows):
            return no_values(), no_values(), no_values()
        if self._of_partitions is None:
            self._numbers = {}
            self._of_partitions = self._find(topics)
        numbers = self._numbers
        member_rack = [numbers.get(row.rack_id or "", NOBODY) for row in rows]
        return *self._of_partitions, np.array(member_rack, np.int32)

    def _find(self, topics: Iterable[TopicRow]) -> tuple[Int32s, Int32s]:
        known: dict[tuple[str, ...], list[int]] = {}
        starts, racks = [0], []
        for topic in topics:
            for names in topic.racks or ((),) * topic.partitions:
                found = known.get(names)
                if found is None:
                    found = known[names] = sorted(map(self._number, names))
                racks += found
                starts.append(len(racks))
        return np.array(starts, np.int32), np.array(racks, np.int32)

    def _number(self, rack: str) -> int:
        return self._numbers.setdefault(rack, len(self._numbers))
