"""A topology with the topics that there are: its tasks, what it lacks, which topics to create."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.effects import SubtopologyRow
from protocol.groups.limits import TASKS_MAX
from protocol.groups.streams import partition_counts
from protocol.groups.streams.status import (
    INCORRECTLY_PARTITIONED,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    TopologyProblem,
)
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from protocol.groups.streams.topology import StreamsTopology
    from protocol.groups.topics import Topics
    from protocol.records import StreamsTopicInfo

TOPICS_SHOWN: Final = 3
"""Names of topics in a status; of the others only the number."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic as it should be; 0 replicas: as many as the cluster says."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTopology:
    """``rows`` are the subtopologies with their numbers of tasks, by id; None: not known yet.

    ``internal`` are all internal topics by name, ``missing`` those that do not exist. ``problem``
    is why the topology cannot run: members get no tasks. ``error``: no topics can make it run.
    """

    epoch: int
    rows: Mapping[str, SubtopologyRow] | None = None
    internal: Mapping[str, InternalTopic] = field(default_factory=lambda: MappingProxyType({}))
    missing: tuple[InternalTopic, ...] = ()
    problem: TopologyProblem | None = None
    error: KafkaError | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the group's tasks can be assigned."""
        return self.problem is None and self.error is None


def configure(topology: StreamsTopology, topics: Topics) -> ConfiguredTopology:
    """Decide the numbers of tasks and partitions, and find what is missing."""
    try:
        _check_sources(topology, topics)
        decided, count = partition_counts.decide(topology, topics)
        rows = {
            name: SubtopologyRow(
                name,
                partition_counts.tasks_of(each, count),
                is_stateful=bool(each.state_changelog_topics),
            )
            for name, each in topology.subtopologies.items()
        }
        _check_size(rows.values())
        internal = {
            topic.name: _internal(topic, decided)
            for each in topology.subtopologies.values()
            for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
        }
        missing = _missing(internal, topics)
    except TopologyProblem as found:
        return ConfiguredTopology(epoch=topology.epoch, problem=found)
    except KafkaError as error:
        return ConfiguredTopology(epoch=topology.epoch, error=error)
    problem = None
    if missing:
        names = summarized([topic.name for topic in missing])
        detail = f"Internal topics are missing: {names}"
        problem = TopologyProblem(MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(
        epoch=topology.epoch,
        rows=MappingProxyType(rows),
        internal=MappingProxyType(internal),
        missing=missing,
        problem=problem,
    )


def summarized(names: Collection[str]) -> str:
    """Return the first few names, and the number of the others."""
    shown = ", ".join(sorted(names)[:TOPICS_SHOWN])
    more = len(names) - TOPICS_SHOWN
    return f"{shown} and {more} additional topics" if more > 0 else shown


def _check_sources(topology: StreamsTopology, topics: Topics) -> None:
    missing = {
        name
        for each in topology.subtopologies.values()
        for name in each.source_topics
        if name not in topics
    }
    if missing:
        raise TopologyProblem(
            MISSING_SOURCE_TOPICS, f"Source topics {summarized(missing)} are missing."
        )


def _check_size(rows: Iterable[SubtopologyRow]) -> None:
    """Refuse more tasks than an assignor takes: subtopologies may share sources with many."""
    tasks = sum(max(0, row.tasks) for row in rows)
    if tasks > TASKS_MAX:
        raise KafkaError(
            ErrorCode.streams_invalid_topology,
            f"The topology has {tasks} tasks. A streams group may have {TASKS_MAX} at most.",
        )


def _internal(topic: StreamsTopicInfo, decided: Mapping[str, int]) -> InternalTopic:
    return InternalTopic(
        topic.name,
        topic.partitions or decided[topic.name],
        topic.replication_factor,
        tuple((each.key, each.value) for each in topic.topic_configs),
    )


def _missing(internal: Mapping[str, InternalTopic], topics: Topics) -> tuple[InternalTopic, ...]:
    missing = []
    for name, wanted in sorted(internal.items()):
        found = topics.by_name(name)
        if found is None:
            missing.append(wanted)
        elif found.partitions != wanted.partitions:
            raise TopologyProblem(
                INCORRECTLY_PARTITIONED,
                f"Existing topic {name} has different number of partitions: expected"
                f" {wanted.partitions}, found {found.partitions}",
            )
    return tuple(missing)
