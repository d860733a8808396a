"""How many partitions the internal topics of a topology have (KIP-1071), as Kafka decides it.

A repartition topic without a number of its own gets the largest number among the sources of the
subtopologies that write it; topics of a copartition group get the same one; a changelog has one
partition for each task of its subtopology.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.streams.status import INCORRECTLY_PARTITIONED, TopologyProblem
from protocol.groups.streams.topology import sources_of
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from protocol.groups.streams.topology import StreamsTopology
    from protocol.groups.topics import Topics
    from protocol.records import StreamsSubtopology

    Count = Callable[[str], int | None]


def decide(topology: StreamsTopology, topics: Topics) -> tuple[dict[str, int], Count]:
    """Return the decided numbers of partitions, and a function for those of any topic.

    All external sources exist. Raises TopologyProblem, or KafkaError for an impossible topology.
    """
    decided: dict[str, int] = {}

    def count(name: str) -> int | None:
        topic = topics.by_name(name)
        return decided.get(name) if topic is None else topic.partitions

    decided.update(_repartition_topics(topology, count))
    fixed = {
        topic.name
        for each in topology.subtopologies.values()
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    repartition = {
        topic.name
        for each in topology.subtopologies.values()
        for topic in each.repartition_source_topics
    }
    for each in topology.subtopologies.values():
        for group in copartition_groups(each):
            if group:
                decided.update(_enforced(group, fixed, repartition, count))
    for each in topology.subtopologies.values():
        tasks = tasks_of(each, count)
        decided.update(dict.fromkeys((t.name for t in each.state_changelog_topics), tasks))
    return decided, count


def tasks_of(subtopology: StreamsSubtopology, count: Count) -> int:
    """Return the number of a subtopology's tasks: the most partitions that a source has."""
    counts = [_known(name, count) for name in sources_of(subtopology)]
    if not counts:
        raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
    return max(counts)


def copartition_groups(subtopology: StreamsSubtopology) -> Iterable[frozenset[str]]:
    """Return the copartition groups of a subtopology as names of topics."""
    sources = subtopology.source_topics
    repartition = subtopology.repartition_source_topics
    for group in subtopology.copartition_groups:
        for indexes, named in (
            (group.source_topics, len(sources)),
            (group.repartition_source_topics, len(repartition)),
        ):
            if any(not 0 <= index < named for index in indexes):
                raise _invalid(
                    f"A copartition group of subtopology {subtopology.subtopology_id} names a"
                    " topic that there is not."
                )
        yield frozenset(
            [
                *(sources[index] for index in group.source_topics),
                *(repartition[index].name for index in group.repartition_source_topics),
            ]
        )


def _repartition_topics(topology: StreamsTopology, count: Count) -> dict[str, int]:
    subtopologies = topology.subtopologies.values()
    counts = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    left = [
        (each, name)
        for each in subtopologies
        for name in each.repartition_sink_topics
        if name not in counts
    ]
    while left:
        unknown = []
        for each, name in left:
            if name in counts:
                continue
            most = _most_partitions(each, counts, count)
            if most is None:
                unknown.append((each, name))
            else:
                counts[name] = most
        if len(unknown) == len(left):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be"
                " loops in the topology that cannot be resolved."
            )
        left = unknown
    for each in subtopologies:
        if any(topic.name not in counts for topic in each.repartition_source_topics):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because a"
                " repartition source topic is never used as a sink topic."
            )
    return counts


def _most_partitions(
    subtopology: StreamsSubtopology, counts: Mapping[str, int], count: Count
) -> int | None:
    """Return the most partitions among the sources that are known by now; None: no source is."""
    repartition = (counts.get(topic.name) for topic in subtopology.repartition_source_topics)
    external = (count(name) for name in subtopology.source_topics)
    return max((each for each in (*repartition, *external) if each is not None), default=None)


def _enforced(
    group: frozenset[str], fixed: set[str], repartition: set[str], count: Count
) -> dict[str, int]:
    """Return the numbers of partitions of a copartition group's repartition topics."""
    internal = {name: _known(name, count) for name in sorted(group & repartition)}
    external = {name: _known(name, count) for name in sorted(group - repartition)}
    if external:
        partitions = _same(external, external)
    elif fixed:
        partitions = _same({name: _known(name, count) for name in sorted(fixed)}, internal)
    else:
        partitions = max(internal.values())
    for name, decided in internal.items():
        if name in fixed and decided != partitions:
            raise TopologyProblem(
                INCORRECTLY_PARTITIONED,
                f"Number of partitions [{decided}] of repartition topic [{name}] doesn't match"
                f" number of partitions [{partitions}] of the source topic.",
            )
    return dict.fromkeys(internal, partitions)


def _same(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    """Return the number of partitions that all these topics have."""
    first = next(iter(counts.values()))
    if any(each != first for each in counts.values()):
        text = ", ".join(f"{name}={partitions}" for name, partitions in sorted(shown.items()))
        raise TopologyProblem(
            INCORRECTLY_PARTITIONED,
            f"Following topics do not have the same number of partitions: [{{{text}}}]",
        )
    return first


def _known(name: str, count: Count) -> int:
    partitions = count(name)
    if partitions is None:
        raise _invalid(f"Number of partitions is not set for topic: {name}")
    return partitions


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.streams_invalid_topology, sentence)
