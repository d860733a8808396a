"""Metadata's topics as they were built: kept for as long as what they show is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.groups.topics import Topic, Topics
    from protocol.wire.messages import MetadataResponseTopic


class DescribedTopics:
    """What one node has built for its answers to Metadata.

    A topic shows its placement, which nodes are up, and who leads. A new topic changes none of
    these for the others, so they are not built again.
    """

    def __init__(self) -> None:
        self._topics: Topics | None = None
        self._nodes: Mapping[int, object] = {}
        self._leaders: Mapping[int, int] = {}
        self._kept: dict[tuple[str, bool], tuple[Topic, MetadataResponseTopic]] = {}

    def look(self, topics: Topics, nodes: Mapping[int, object], leaders: Mapping[int, int]) -> None:
        """Forget what is shown differently now, and topics that are gone."""
        if nodes != self._nodes or leaders != self._leaders:
            self._kept.clear()
        if topics is not self._topics:
            for key in [key for key in self._kept if topics.by_name(key[0]) is None]:
                del self._kept[key]
        self._topics, self._nodes, self._leaders = topics, nodes, leaders

    def find(self, topic: Topic, with_operations: bool) -> MetadataResponseTopic | None:
        """Return a topic as built, with authorized operations or not; None: build it."""
        kept = self._kept.get((topic.name, with_operations))
        return kept[1] if kept is not None and kept[0] is topic else None

    def keep(self, topic: Topic, with_operations: bool, described: MetadataResponseTopic) -> None:
        """Keep what was built after :meth:`find` returned None."""
        self._kept[topic.name, with_operations] = topic, described

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
