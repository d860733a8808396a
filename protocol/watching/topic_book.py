"""The topics of a watched cluster, as they become known: their names, ids and partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.topics import Topic, Topics

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

MISSED_MAX: Final = 1_000
LEARNED_MAX: Final = 100_000
"""Topics that are remembered only because records named them."""


class TopicBook(Topics):
    """An image of the topics that grows: facts that refer to it find what is learned later."""

    __slots__ = ("_learned", "_missed", "_unfound")

    def __init__(self, topics: Iterable[Topic] = ()) -> None:
        super().__init__(topics)
        self._learned: dict[UUID, Topic] = {}
        self._missed: set[UUID] = set()
        self._unfound: set[UUID] = set()

    def replace(self, topics: Iterable[Topic]) -> None:
        """Take the topics that the cluster has now; those that are gone keep their names."""
        gone = dict(self._by_id)
        for topic in topics:
            gone.pop(topic.topic_id, None)
            self._by_id[topic.topic_id] = self._by_name[topic.name] = topic
        for topic_id, topic in gone.items():
            del self._by_id[topic_id]
            if self._by_name.get(topic.name) is topic:
                del self._by_name[topic.name]
            self._learn(topic)
        self._unfound |= {each for each in self._missed if each not in self._by_id}
        if len(self._unfound) > MISSED_MAX:
            self._unfound.clear()
        self._missed.clear()

    def learn(self, topic_id: UUID | None, name: str) -> None:
        """Note what a record says of a topic's name."""
        if topic_id is not None and topic_id not in self._by_id and topic_id not in self._learned:
            self._learn(Topic(topic_id, name, 0))

    def by_id(self, topic_id: UUID) -> Topic | None:
        """Return the topic with this id, if its name is known; otherwise it is missed."""
        found = self._found(topic_id)
        is_new = found is None and topic_id not in self._unfound
        if is_new and len(self._missed) < MISSED_MAX:
            self._missed.add(topic_id)
        return found

    def name_of(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with this id, if it is known; nobody needs it yet."""
        found = self._found(topic_id)
        return None if found is None else found.name

    @property
    def misses(self) -> bool:
        """Whether an id was asked for that may be of a topic newer than those that it has.

        An id that was missed, and is not among the topics that come then, is not missed again: it
        is that of a topic that is gone, or that the user may not describe.
        """
        return bool(self._missed)

    def _found(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id) or self._learned.get(topic_id)

    def _learn(self, topic: Topic) -> None:
        self._learned[topic.topic_id] = topic
        if len(self._learned) > LEARNED_MAX:
            del self._learned[next(iter(self._learned))]
