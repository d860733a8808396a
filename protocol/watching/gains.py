"""When a member got each of its partitions: a commit of one is its own if it is not older."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LATER_MAX: Final = 1_000
"""Partitions of a member that have times of their own; with more, all count as got last."""

_Partition = TypeVar("_Partition")


class Gains(NamedTuple, Generic[_Partition]):
    """``later`` has the partitions that a member got after those of ``since_ms`` (Unix ms)."""

    since_ms: int
    later: Mapping[_Partition, int] = MappingProxyType({})

    def of(self, partition: _Partition) -> int:
        """Return when the member got a partition that it has."""
        return self.later.get(partition, self.since_ms)

    def more(
        self, had: Collection[_Partition], has: Collection[_Partition], time_ms: int
    ) -> Gains[_Partition]:
        """Return the gains of a member that had some partitions, and now has these."""
        new = [each for each in has if each not in had]
        if not new:
            return self
        later = {each: self.later[each] for each in has if each in had and each in self.later}
        later |= dict.fromkeys(new, time_ms)
        if len(new) == len(has) or len(later) > LATER_MAX:
            return Gains(time_ms)
        return Gains(self.since_ms, later)
