"""Which partitions of a share group have share state (KIP-932): a value, and its record.

The share state of a partition (where delivery begins, which records are in flight) is kept by the
share coordinator. Members are only assigned partitions whose share state is *initialized*; it is
being created for those that are *initializing*, and removed for topics that are *deleting*.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT
from protocol.records import (
    ShareGroupStatePartitionMetadataValue,
    ShareTopic,
    ShareTopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set
    from uuid import UUID

    from protocol.groups.topic_numbers import Partition, TopicNumbers

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class StateTopic:
    """A topic's name, and those of its partitions that are in one state.

    ``row`` caches the topic as its group's record has it.
    """

    name: str
    partitions: frozenset[int]
    row: ShareTopicPartitions | None = field(default=None, compare=False, repr=False)


def _none() -> Mapping[UUID, ValueT]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StateTopics:
    """A group's topics by the progress of their share state; ``deleting`` maps ids to names.

    ``numbered`` caches the initialized partitions of the topics that were asked for by number.
    """

    initializing: Mapping[UUID, StateTopic] = field(default_factory=_none)
    initialized: Mapping[UUID, StateTopic] = field(default_factory=_none)
    deleting: Mapping[UUID, str] = field(default_factory=_none)
    numbered: dict[int, Set[int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __bool__(self) -> bool:
        return bool(self.initializing or self.initialized or self.deleting)

    def has(self, topic_id: UUID, partition: int) -> bool:
        """Whether the share state of a partition is initialized."""
        topic = self.initialized.get(topic_id)
        return topic is not None and partition in topic.partitions

    def having(self, partitions: Set[Partition], numbers: TopicNumbers) -> Set[Partition]:
        """Return those of some partitions whose share state is initialized."""
        numbered = self.numbered
        for each in partitions:
            number = each >> TOPIC_SHIFT
            if number not in numbered:
                topic = self.initialized.get(numbers.uuids[number])
                numbered[number] = frozenset() if topic is None else topic.partitions
        lost = [
            each for each in partitions if each & INDEX_MASK not in numbered[each >> TOPIC_SHIFT]
        ]
        return partitions - frozenset(lost) if lost else partitions

    def beginning(self, topics: Mapping[UUID, StateTopic]) -> StateTopics:
        """Return this with more partitions that are initializing; none of them is being deleted.

        Those that are initialized already stay so.
        """
        return replace(
            self,
            initializing=_joined(self.initializing, _less(topics, self.initialized)),
            deleting=_without(self.deleting, topics),
        )

    def done(self, topics: Mapping[UUID, StateTopic]) -> StateTopics:
        """Return this with more partitions that are initialized, and no longer initializing."""
        return replace(
            self,
            initializing=_less(self.initializing, topics),
            initialized=_joined(self.initialized, topics),
        )

    def not_begun(self, topics: Mapping[UUID, StateTopic]) -> StateTopics:
        """Return this with fewer partitions that are initializing: they failed."""
        return replace(self, initializing=_less(self.initializing, topics))

    def removing(self, topics: Mapping[UUID, str]) -> StateTopics:
        """Return this with topics whose share state is being deleted, in place of created.

        More partitions of a topic that grows may be initializing: they are removed as well.
        """
        return replace(
            self,
            initializing=_without(self.initializing, topics),
            initialized=_without(self.initialized, topics),
            deleting={**self.deleting, **topics},
        )

    def removed(self, topics: Mapping[UUID, str]) -> StateTopics:
        """Return this with topics whose share state has been deleted."""
        return replace(self, deleting=_without(self.deleting, topics))

    def without(self, topic_ids: Iterable[UUID]) -> StateTopics:
        """Return this without these topics: their share state is gone."""
        gone = frozenset(topic_ids)
        return StateTopics(
            _without(self.initializing, gone),
            _without(self.initialized, gone),
            _without(self.deleting, gone),
        )

    def ids(self) -> Mapping[UUID, str]:
        """Return the names of all topics, by id."""
        return {
            **self.deleting,
            **{topic_id: topic.name for topic_id, topic in self.initializing.items()},
            **{topic_id: topic.name for topic_id, topic in self.initialized.items()},
        }

    def record(self) -> ShareGroupStatePartitionMetadataValue:
        """Return the value of the group's record, topics by id and partitions ascending."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_rows(self.initializing),
            initialized_topics=_rows(self.initialized),
            deleting_topics=tuple(
                ShareTopic(topic_id=topic_id, topic_name=name)
                for topic_id, name in sorted(self.deleting.items())
            ),
        )

    @classmethod
    def of(cls, value: ShareGroupStatePartitionMetadataValue) -> StateTopics:
        """Read the value of a group's record."""
        return cls(
            _read(value.initializing_topics),
            _read(value.initialized_topics),
            {each.topic_id: each.topic_name for each in value.deleting_topics if each.topic_id},
        )


def _rows(topics: Mapping[UUID, StateTopic]) -> tuple[ShareTopicPartitions, ...]:
    ordered = sorted(topics.items(), key=lambda item: item[0].int)
    return tuple([_row(topic_id, topic) for topic_id, topic in ordered])


def _row(topic_id: UUID, topic: StateTopic) -> ShareTopicPartitions:
    row = topic.row
    if row is None or row.topic_id is not topic_id:
        row = ShareTopicPartitions(
            topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(topic.partitions))
        )
        object.__setattr__(topic, "row", row)
    return row


def _read(rows: Iterable[ShareTopicPartitions]) -> Mapping[UUID, StateTopic]:
    return {
        row.topic_id: StateTopic(row.topic_name, frozenset(row.partitions), row)
        for row in rows
        if row.topic_id is not None
    }


def _joined(
    topics: Mapping[UUID, StateTopic], more: Mapping[UUID, StateTopic]
) -> Mapping[UUID, StateTopic]:
    joined = dict(topics)
    for topic_id, topic in more.items():
        known = joined.get(topic_id)
        if known is not None:
            topic = StateTopic(topic.name, known.partitions | topic.partitions)  # noqa: PLW2901
        joined[topic_id] = topic
    return joined


def _less(
    topics: Mapping[UUID, StateTopic], gone: Mapping[UUID, StateTopic]
) -> Mapping[UUID, StateTopic]:
    kept = {}
    for topic_id, topic in topics.items():
        less = gone.get(topic_id)
        if less is None:
            kept[topic_id] = topic
        elif partitions := topic.partitions - less.partitions:
            kept[topic_id] = StateTopic(topic.name, partitions)
    return kept


def _without(
    topics: Mapping[UUID, ValueT], gone: Set[UUID] | Mapping[UUID, object]
) -> Mapping[UUID, ValueT]:
    return {topic_id: value for topic_id, value in topics.items() if topic_id not in gone}
