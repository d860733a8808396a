"""The topology of a streams application, in the form in which its members send it (KIP-1071)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from protocol.wire.streams_messages import (
    StreamsConfig,
    StreamsCopartitionGroup,
    StreamsSubtopology,
    StreamsTopicInfo,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def internal_topic(
    name: str,
    partitions: int = 0,
    replication_factor: int = 0,
    configs: Mapping[str, str] | None = None,
) -> StreamsTopicInfo:
    """Describe a repartition or changelog topic; 0: the coordinator decides."""
    return StreamsTopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=replication_factor,
        topic_configs=tuple(
            StreamsConfig(key=key, value=value) for key, value in sorted((configs or {}).items())
        ),
    )


def subtopology(
    subtopology_id: str,
    source_topics: Sequence[str] = (),
    *,
    changelogs: Sequence[StreamsTopicInfo] = (),
    repartition_sources: Sequence[StreamsTopicInfo] = (),
    repartition_sinks: Sequence[str] = (),
) -> StreamsSubtopology:
    """Describe a subtopology."""
    return StreamsSubtopology(
        subtopology_id=subtopology_id,
        source_topics=tuple(sorted(source_topics)),
        state_changelog_topics=tuple(sorted(changelogs, key=_name)),
        repartition_sink_topics=tuple(sorted(repartition_sinks)),
        repartition_source_topics=tuple(sorted(repartition_sources, key=_name)),
        copartition_groups=(),
    )


def copartitioned(each: StreamsSubtopology, *groups: Sequence[str]) -> StreamsSubtopology:
    """Return a subtopology in which the input topics of each group must have equal sizes."""
    sources, repartitions = each.source_topics, [*map(_name, each.repartition_source_topics)]
    rows = tuple(
        StreamsCopartitionGroup(
            source_topics=tuple(sources.index(name) for name in group if name in sources),
            repartition_source_topics=tuple(
                repartitions.index(name) for name in group if name not in sources
            ),
        )
        for group in groups
    )
    return replace(each, copartition_groups=rows)


def _name(topic: StreamsTopicInfo) -> str:
    return topic.name


def input_topics(each: StreamsSubtopology) -> tuple[str, ...]:
    """Return the topics from which a subtopology's tasks read, and whose offsets they commit."""
    return (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
