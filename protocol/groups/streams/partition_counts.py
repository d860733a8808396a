"""How many partitions the internal topics of a topology have (KIP-1071), as Kafka decides it.

A repartition topic without a number of its own gets the largest number among the sources of the
subtopologies that write it; topics of a copartition group get the same one; a changelog has one
partition for each task of its subtopology.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from protocol.groups.streams.status import INCORRECTLY_PARTITIONED, TopologyProblem
from protocol.groups.streams.topology import sources_of
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

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
    fixed_counts = frozenset(_known(name, count) for name in fixed)
    for each in topology.subtopologies.values():
        for group in copartition_groups(each):
            if group:
                decided.update(_enforced(group, repartition, fixed, fixed_counts, count))
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
    subtopologies = list(topology.subtopologies.values())
    counts = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    _count_sinks(subtopologies, counts, count)
    for each in subtopologies:
        if any(topic.name not in counts for topic in each.repartition_source_topics):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because a"
                " repartition source topic is never used as a sink topic."
            )
    return counts


def _count_sinks(
    subtopologies: Sequence[StreamsSubtopology], counts: dict[str, int], count: Count
) -> None:
    """Add the numbers of partitions of the topics that subtopologies write.

    Kafka goes through all sinks, turn by turn, until it knows all: a sink gets the most partitions
    among the sources that are known when its place in a turn has come. The same decisions are made
    here, but each sink is looked at once: when the first source of its subtopology becomes known.
    """
    most: list[int | None] = []
    readers: dict[str, list[int]] = {}
    for number, each in enumerate(subtopologies):
        sources = [count(name) for name in each.source_topics]
        for topic in each.repartition_source_topics:
            sources.append(counts.get(topic.name))
            readers.setdefault(topic.name, []).append(number)
        most.append(max((known for known in sources if known is not None), default=None))
    sinks = [
        (number, name)
        for number, each in enumerate(subtopologies)
        for name in each.repartition_sink_topics
        if name not in counts
    ]
    places: dict[int, list[int]] = {}
    for place, (number, _) in enumerate(sinks):
        places.setdefault(number, []).append(place)
    due = [(0, place) for place, (number, _) in enumerate(sinks) if most[number] is not None]
    while due:
        turn, place = heappop(due)
        number, name = sinks[place]
        known = most[number]
        if name in counts or known is None:
            continue
        counts[name] = known
        for reader in readers.get(name, ()):
            before = most[reader]
            most[reader] = known if before is None else max(before, known)
            if before is None:
                for later in places.get(reader, ()):
                    heappush(due, (turn + (later <= place), later))
    if any(name not in counts for _, name in sinks):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics. There may be"
            " loops in the topology that cannot be resolved."
        )


def _enforced(
    group: frozenset[str],
    repartition: Set[str],
    fixed: Set[str],
    fixed_counts: Collection[int],
    count: Count,
) -> dict[str, int]:
    """Return the numbers of partitions of a copartition group's repartition topics.

    ``fixed_counts`` are those of all repartition topics with a number of their own (``fixed``).
    """
    internal = {name: _known(name, count) for name in sorted(group & repartition)}
    external = {name: _known(name, count) for name in sorted(group - repartition)}
    if external:
        partitions = _same(frozenset(external.values()), external)
    elif fixed_counts:
        partitions = _same(fixed_counts, internal)
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


def _same(counts: Collection[int], shown: Mapping[str, int]) -> int:
    """Return the only count; several are a problem."""
    if len(counts) > 1:
        text = ", ".join(f"{name}={partitions}" for name, partitions in sorted(shown.items()))
        raise TopologyProblem(
            INCORRECTLY_PARTITIONED,
            f"Following topics do not have the same number of partitions: [{{{text}}}]",
        )
    return next(iter(counts))


def _known(name: str, count: Count) -> int:
    partitions = count(name)
    if partitions is None:
        raise _invalid(f"Number of partitions is not set for topic: {name}")
    return partitions


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.streams_invalid_topology, sentence)
