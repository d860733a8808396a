"""The topology of a streams group: as its members send it, and as its record keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from protocol.records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    StreamsKeyValue,
    StreamsSubtopology,
    StreamsTopicInfo,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.wire import streams_messages as m


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """A topology at an epoch: its subtopologies by id, in the order of the ids.

    ``required`` are the names of all topics that must exist: sources, repartition topics,
    changelogs. ``readers`` maps each source, repartition topics included, to its subtopology's id.
    """

    epoch: int
    subtopologies: Mapping[str, StreamsSubtopology]
    required: frozenset[str]
    readers: Mapping[str, str]

    @classmethod
    def of(cls, value: StreamsGroupTopologyValue) -> StreamsTopology:
        """Read a topology's record."""
        ordered = sorted(value.subtopologies, key=lambda each: each.subtopology_id)
        readers = {name: each.subtopology_id for each in ordered for name in sources_of(each)}
        changelogs = (topic.name for each in ordered for topic in each.state_changelog_topics)
        return cls(
            value.epoch,
            MappingProxyType({each.subtopology_id: each for each in ordered}),
            frozenset(readers).union(changelogs),
            MappingProxyType(readers),
        )


def sources_of(subtopology: StreamsSubtopology) -> list[str]:
    """Return the topics that a subtopology reads, repartition topics last."""
    repartition = (topic.name for topic in subtopology.repartition_source_topics)
    return [*subtopology.source_topics, *repartition]


def topology_record(topology: m.StreamsTopology) -> StreamsGroupTopologyValue:
    """Return the record of a topology that a member sent."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=tuple(
            StreamsSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics=tuple(each.source_topics),
                source_topic_regex=tuple(each.source_topic_regex),
                state_changelog_topics=_topic_infos(each.state_changelog_topics),
                repartition_sink_topics=tuple(each.repartition_sink_topics),
                repartition_source_topics=_topic_infos(each.repartition_source_topics),
                copartition_groups=tuple(
                    CopartitionGroup(
                        source_topics=tuple(group.source_topics),
                        source_topic_regex=tuple(group.source_topic_regex),
                        repartition_source_topics=tuple(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ),
            )
            for each in topology.subtopologies
        ),
    )


def _topic_infos(topics: Iterable[m.StreamsTopicInfo]) -> tuple[StreamsTopicInfo, ...]:
    return tuple(
        StreamsTopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=tuple(
                StreamsKeyValue(key=each.key, value=each.value) for each in topic.topic_configs
            ),
        )
        for topic in topics
    )
