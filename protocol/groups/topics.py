"""The topics a shard knows: an immutable image, replaced as a whole when the catalogue changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import UUID

from protocol.groups.topic_row import TopicRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and the replicas of its partitions.

    ``replicas`` holds one tuple of node ids per partition, the preferred leader first; it may be
    empty where placement does not matter. ``row`` is the topic as passed to an assignor run when
    racks do not matter.
    """

    topic_id: UUID
    name: str
    partitions: int
    replicas: tuple[tuple[int, ...], ...] = ()
    row: TopicRow = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "row", TopicRow(self.topic_id.bytes, self.name, self.partitions))


class Topics:
    """All topics by name and by id; iteration is by name.

    ``racks`` are the racks of the nodes that have one, by node id. ``deleted`` holds the ids of
    deleted topics, by their former names: offsets committed for them have to be removed.
    """

    __slots__ = ("_by_id", "_by_name", "_racks_of", "deleted", "racks")

    def __init__(
        self,
        topics: Iterable[Topic] = (),
        racks: Mapping[int, str] = MappingProxyType({}),
        deleted: Mapping[str, frozenset[UUID]] = MappingProxyType({}),
    ) -> None:
        ordered = sorted(topics, key=lambda topic: topic.name)
        self._by_name = {topic.name: topic for topic in ordered}
        self._by_id = {topic.topic_id: topic for topic in ordered}
        self.racks = racks
        self._racks_of: dict[tuple[int, ...], tuple[str, ...]] = {}
        self.deleted = deleted

    def by_name(self, name: str) -> Topic | None:
        """Return the topic with this name, if there is one."""
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        """Return the topic with this id, if there is one."""
        return self._by_id.get(topic_id)

    def partition_racks(self, topic: Topic) -> tuple[tuple[str, ...], ...]:
        """Return the sorted racks of each partition's replicas; empty when no node has a rack."""
        if not self.racks:
            return ()
        known = self._racks_of
        return tuple(known.get(nodes) or self._find_racks(nodes) for nodes in topic.replicas)

    def _find_racks(self, nodes: tuple[int, ...]) -> tuple[str, ...]:
        racks = self.racks
        found = tuple(sorted({racks[node_id] for node_id in nodes if node_id in racks}))
        self._racks_of[nodes] = found
        return found

    def changed(self, after: Topics) -> tuple[list[str], bool]:
        """Compare with a later image: return the names that changed, and whether any is new."""
        before, later = self._by_name, after._by_name
        if before is later:
            return [], False
        has_new = not later.keys() <= before.keys()
        is_other = self.racks != after.racks
        changed = [name for name, topic in later.items() if is_other or before.get(name) != topic]
        return [*changed, *(before.keys() - later.keys())], has_new

    def deleted_since(self, before: Topics) -> frozenset[UUID]:
        """Return the ids of topics that an earlier image does not know as deleted."""
        known = before.deleted
        return frozenset[UUID]().union(
            *(ids - known.get(name, frozenset()) for name, ids in self.deleted.items())
        )

    def names(self) -> tuple[str, ...]:
        """Return the names of all topics, sorted."""
        return tuple(self._by_name)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Topics)
            and self._by_name == other._by_name
            and self.racks == other.racks
        )

    def __hash__(self) -> int:
        return hash(tuple(self._by_name.values()))
