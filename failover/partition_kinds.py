"""The kinds of partitions that nodes replicate: one table, with everything that differs by kind.

A partition has one number on all nodes, in the log and in messages. Each kind has its own numbers,
from :attr:`PartitionKind.first` on. :data:`failover.machine_adapters.MACHINES` has the state
machine of each kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from failover.catalogue.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKind:
    """One row.

    ``first`` is the number of its partition 0. ``topic`` is the topic that clients see; each of its
    partitions has replicas on the nodes that the placement says, the preferred leader first. None:
    there is one partition, of which every node has a replica. ``title`` names a partition to
    operators. ``is_balanced``: the controller spreads the kind's leaders evenly over the nodes.
    ``awaits_catalog``: it is led only by nodes that know the topics. ``full_disk``: the answer to
    requests that would wait for space on a disk.
    """

    name: str
    first: int
    topic: str | None
    title: str
    is_balanced: bool
    awaits_catalog: bool
    full_disk: ErrorCode

    def number(self, index: int) -> int:
        """Return the number of the kind's partition ``index``."""
        return self.first + index

    def index(self, number: int) -> int:
        """Return which partition of its kind a number is."""
        return number - self.first

    def numbers(self, count: int) -> range:
        """Return the numbers of the kind's first ``count`` partitions."""
        return range(self.first, self.first + count)


CATALOG: Final = PartitionKind(
    name="catalogue",
    first=-1,
    topic=None,
    title="the catalogue",
    is_balanced=False,  # it causes almost no load
    awaits_catalog=False,
    full_disk=ErrorCode.not_controller,
)
GROUPS: Final = PartitionKind(
    name="groups",
    first=0,
    topic=CONSUMER_OFFSETS,
    title="partition {}",
    is_balanced=True,
    awaits_catalog=True,
    full_disk=ErrorCode.coordinator_not_available,
)
SHARE_STATE: Final = PartitionKind(
    name="share state",
    first=1_000_000,
    topic=SHARE_GROUP_STATE,
    title="share state partition {}",
    is_balanced=True,
    awaits_catalog=True,
    full_disk=ErrorCode.coordinator_not_available,
)

KINDS: Final = (CATALOG, GROUPS, SHARE_STATE)
"""In order of their numbers."""

PLACED: Final = tuple(kind for kind in KINDS if kind.topic is not None)
"""The kinds whose partitions are spread over the nodes."""

PARTITIONS_MAX: Final = 1_000_000
"""The most partitions of one kind."""


def kind_of(number: int) -> PartitionKind:
    """Return the kind of a partition."""
    return next(kind for kind in reversed(KINDS) if kind.first <= number)


def kind_of_topic(name: str) -> PartitionKind | None:
    """Return the kind whose partitions are those of a topic; None for a topic of clients."""
    return next((kind for kind in PLACED if kind.topic == name), None)


def title_of(number: int) -> str:
    """Return what operators call a partition."""
    kind = kind_of(number)
    return kind.title.format(kind.index(number))


@cache
def replicas(placement: tuple[tuple[int, ...], ...]) -> Mapping[int, tuple[int, ...]]:
    """Return the nodes of every placed partition, by number: all kinds are placed alike."""
    return MappingProxyType(
        {kind.number(index): nodes for kind in PLACED for index, nodes in enumerate(placement)}
    )
