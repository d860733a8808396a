"""Members of streams groups that exist for a moment only: they bring the group's own topology."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from protocol.members.streams import StreamsMember, StreamsMemberConfig
from protocol.wire import streams_messages as m

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.streams.topology import StreamsTopology
    from protocol.records import StreamsSubtopology, StreamsTopicInfo


def streams_ghost(
    group_id: str, topology: StreamsTopology, instance_id: str | None = None
) -> StreamsMember:
    """Return a member with the group's topology: a coordinator refuses another one."""
    config = StreamsMemberConfig(
        group_id=group_id, topology=_sent(topology), instance_id=instance_id
    )
    return StreamsMember(config, random.Random(), {})


def _sent(topology: StreamsTopology) -> m.StreamsTopology:
    """Return a topology as a member sends it."""
    return m.StreamsTopology(
        epoch=topology.epoch,
        subtopologies=tuple(_subtopology(each) for each in topology.subtopologies.values()),
    )


def _subtopology(subtopology: StreamsSubtopology) -> Any:
    return m.StreamsSubtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=subtopology.source_topics,
        source_topic_regex=subtopology.source_topic_regex,
        state_changelog_topics=_topics(subtopology.state_changelog_topics),
        repartition_sink_topics=subtopology.repartition_sink_topics,
        repartition_source_topics=_topics(subtopology.repartition_source_topics),
        copartition_groups=tuple(
            m.StreamsCopartitionGroup(
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                repartition_source_topics=each.repartition_source_topics,
            )
            for each in subtopology.copartition_groups
        ),
    )


def _topics(topics: Iterable[StreamsTopicInfo]) -> tuple[m.StreamsTopicInfo, ...]:
    return tuple(
        m.StreamsTopicInfo(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            topic_configs=tuple(
                m.StreamsConfig(key=config.key, value=config.value) for config in each.topic_configs
            ),
        )
        for each in topics
    )
