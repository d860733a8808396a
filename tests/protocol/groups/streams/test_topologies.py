"""How many partitions internal topics have, and which topics a topology lacks: Kafka's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st

from protocol.groups.limits import TASKS_MAX
from protocol.groups.streams import partition_counts
from protocol.groups.streams.configured import configure
from protocol.groups.streams.topology import StreamsTopology, topology_record
from protocol.wire.errors import ErrorCode
from tests.effort import examples
from tests.protocol.groups.conversation import image
from tests.protocol.groups.streams.streams_talk import subtopology, topic, topology

if TYPE_CHECKING:
    from protocol.groups.streams.configured import ConfiguredTopology
    from protocol.wire import streams_messages as m

R, S = topic("r"), topic("s")


def configured(given: tuple[m.StreamsSubtopology, ...], **topics: int) -> ConfiguredTopology:
    return configure(StreamsTopology.of(topology_record(topology(*given))), image(topics))


@pytest.mark.parametrize(
    ("given", "topics", "tasks", "internal"),
    [
        # a changelog has a partition for each task
        (
            (subtopology("0", ("a", "b"), changelogs=(topic("c"),)),),
            {"a": 2, "b": 3},
            {"0": 3},
            {"c": 3},
        ),
        # a repartition topic has as many as the sources of what writes it
        (
            (subtopology("0", ("a",), sinks=("r",)), subtopology("1", (), repartition=(R,))),
            {"a": 4},
            {"0": 4, "1": 4},
            {"r": 4},
        ),
        # one written by a subtopology that reads another is decided later
        (
            (
                subtopology("0", (), sinks=("s",), repartition=(R,)),
                subtopology("1", ("a",), sinks=("r",)),
                subtopology("2", (), repartition=(S,), changelogs=(topic("c"),)),
            ),
            {"a": 5},
            {"0": 5, "1": 5, "2": 5},
            {"r": 5, "s": 5, "c": 5},
        ),
        # its own number counts
        (
            (
                subtopology("0", ("a",), sinks=("r",)),
                subtopology("1", (), repartition=(topic("r", 7),)),
            ),
            {"a": 4},
            {"0": 4, "1": 7},
            {"r": 7},
        ),
        # with an external topic in its copartition group it has that one's number
        (
            (
                subtopology("0", ("a",), sinks=("r",)),
                subtopology("1", ("b",), repartition=(R,), copartition=(((0,), (0,)),)),
            ),
            {"a": 4, "b": 2},
            {"0": 4, "1": 2},
            {"r": 2},
        ),
        # among repartition topics only, the largest
        (
            (
                subtopology("0", ("a",), sinks=("r",)),
                subtopology("1", ("b",), sinks=("s",)),
                subtopology("2", (), repartition=(R, S), copartition=(((), (0, 1)),)),
            ),
            {"a": 4, "b": 2},
            {"0": 4, "1": 2, "2": 4},
            {"r": 4, "s": 4},
        ),
        # with a fixed one among them, that
        (
            (
                subtopology("0", ("a",), sinks=("r", "s")),
                subtopology("1", (), repartition=(R, topic("s", 3)), copartition=(((), (0, 1)),)),
            ),
            {"a": 4},
            {"0": 4, "1": 3},
            {"r": 3, "s": 3},
        ),
    ],
)
def test_partition_counts(
    given: tuple[m.StreamsSubtopology, ...],
    topics: dict[str, int],
    tasks: dict[str, int],
    internal: dict[str, int],
) -> None:
    found = configured(given, **topics)
    assert found.rows is not None
    assert {name: row.tasks for name, row in found.rows.items()} == tasks
    assert {name: each.partitions for name, each in found.internal.items()} == internal
    assert {each.name for each in found.missing} == internal.keys()
    ready = configured(given, **topics, **internal)
    assert (ready.is_ready, ready.missing, ready.rows) == (True, (), found.rows)


@pytest.mark.parametrize(
    ("given", "topics", "code", "detail"),
    [
        (
            (subtopology("0", ("a", "b", "c", "d", "e")),),
            {"e": 1},
            1,
            "Source topics a, b, c and 1 additional topics are missing.",
        ),
        (
            (subtopology("0", ("a", "b"), copartition=(((0, 1), ()),)),),
            {"a": 1, "b": 2},
            2,
            "Following topics do not have the same number of partitions: [{a=1, b=2}]",
        ),
        (
            (
                subtopology("0", ("a",), sinks=("r",)),
                subtopology("1", ("b",), repartition=(topic("r", 3),), copartition=(((0,), (0,)),)),
            ),
            {"a": 4, "b": 2},
            2,
            "Number of partitions [3] of repartition topic [r] doesn't match number of partitions"
            " [2] of the source topic.",
        ),
        (
            (
                subtopology("0", ("a",), sinks=("r", "s")),
                subtopology(
                    "1",
                    (),
                    repartition=(topic("r", 2), topic("s", 3)),
                    copartition=(((), (0, 1)),),
                ),
            ),
            {"a": 4},
            2,
            "Following topics do not have the same number of partitions: [{r=2, s=3}]",
        ),
        (
            (subtopology("0", ("a",), changelogs=(topic("c"),)),),
            {"a": 4, "c": 3},
            2,
            "Existing topic c has different number of partitions: expected 4, found 3",
        ),
    ],
)
def test_problems_that_topics_can_mend(
    given: tuple[m.StreamsSubtopology, ...], topics: dict[str, int], code: int, detail: str
) -> None:
    found = configured(given, **topics)
    assert found.problem is not None
    assert (found.problem.code, found.problem.detail) == (code, detail)
    assert (found.is_ready, found.rows, found.missing) == (False, None, ())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            (
                subtopology("0", (), sinks=("s",), repartition=(R,)),
                subtopology("1", (), sinks=("r",), repartition=(S,)),
            ),
            "Failed to compute number of partitions for all repartition topics. There may be loops"
            " in the topology that cannot be resolved.",
        ),
        (
            (subtopology("0", (), repartition=(R,)),),
            "Failed to compute number of partitions for all repartition topics, because a"
            " repartition source topic is never used as a sink topic.",
        ),
    ],
)
def test_topologies_that_no_topics_can_make_run(
    given: tuple[m.StreamsSubtopology, ...], why: str
) -> None:
    found = configured(given, a=1)
    assert found.error is not None
    assert (found.error.code, found.error.message) == (ErrorCode.streams_invalid_topology, why)
    assert not found.is_ready


def test_a_topology_with_more_tasks_than_a_group_may_have() -> None:
    # All subtopologies read one topic, so a short topology may have very many tasks.
    most = [subtopology(str(n), ("a",)) for n in range(11)]
    assert configured(tuple(most[:10]), a=TASKS_MAX // 10).is_ready
    found = configured(tuple(most), a=TASKS_MAX // 10)
    assert found.error is not None
    assert (found.error.code, found.error.message) == (
        ErrorCode.streams_invalid_topology,
        "The topology has 1100000 tasks. A streams group may have 1000000 at most.",
    )
    assert found.rows is None


@pytest.mark.parametrize("partitions", [-1, -(2**31), 2**31 - 1])
def test_a_number_of_partitions_that_no_topic_has_leaves_the_topic_missing(partitions: int) -> None:
    writes = subtopology("0", ("a",), sinks=("r",))
    reads = subtopology("1", (), repartition=(topic("r", partitions),))
    found = configured((writes, reads), a=1)
    if partitions > TASKS_MAX:
        assert found.error is not None
    else:
        assert [each.partitions for each in found.missing] == [partitions]
    assert not found.is_ready


def turn_by_turn(given: tuple[m.StreamsSubtopology, ...], sizes: dict[str, int]) -> dict[str, int]:
    """The numbers of repartition topics as Kafka finds them; those not in it cannot be found."""
    counts = {
        t.name: t.partitions for s in given for t in s.repartition_source_topics if t.partitions
    }
    has_changed = True
    while has_changed:
        has_changed = False
        for each in given:
            for name in each.repartition_sink_topics:
                known = [counts.get(t.name) for t in each.repartition_source_topics]
                known += [sizes.get(source) for source in each.source_topics]
                found = [one for one in known if one is not None]
                if name not in counts and found:
                    counts[name] = max(found)
                    has_changed = True
    return counts


SIZES = {"a": 2, "b": 5}
NAMES = st.lists(st.sampled_from("qrstuv"), max_size=3, unique=True)
SUBTOPOLOGIES = st.lists(
    st.tuples(
        st.lists(st.sampled_from("ab"), max_size=1),
        NAMES,
        st.lists(st.tuples(st.sampled_from("qrstuv"), st.sampled_from([0, 0, 3, 7])), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


@given_any(SUBTOPOLOGIES)
@settings(max_examples=examples(300))
def test_sinks_are_decided_as_in_kafka_turn_by_turn(
    drawn: list[tuple[list[str], list[str], list[tuple[str, int]]]],
) -> None:
    given = tuple(
        subtopology(str(n), sources, sinks=sinks, repartition=[topic(*each) for each in read])
        for n, (sources, sinks, read) in enumerate(drawn)
    )
    expected = turn_by_turn(given, SIZES)
    known = StreamsTopology.of(topology_record(topology(*given)))
    names = {name for _, sinks, read in drawn for name in (*sinks, *(each[0] for each in read))}
    if names <= expected.keys() and all(sources or read for sources, _, read in drawn):
        decided, _ = partition_counts.decide(known, image(SIZES))
        assert {name: decided[name] for name in names} == expected
    else:
        assert configure(known, image(SIZES)).error is not None


class CountingTopics:
    """Topics that count how often they are asked."""

    def __init__(self, **sizes: int) -> None:
        self.topics, self.asked = image(sizes), 0

    def by_name(self, name: str) -> object:
        self.asked += 1
        return self.topics.by_name(name)

    def __contains__(self, name: str) -> bool:
        return name in self.topics


@pytest.mark.parametrize("size", [50, 200])
def test_work_grows_with_the_topology_and_not_with_its_square(size: int) -> None:
    # The first sink is known last, and each copartition group is beside all fixed topics.
    chain = [
        subtopology(str(n), (), sinks=(f"r{n}",), repartition=(topic(f"r{n + 1}"),))
        for n in range(size)
    ]
    fixed = [topic(f"f{n}", 3) for n in range(size)]
    groups = [((), (n,)) for n in range(size)]
    given = (
        *chain,
        subtopology("first", ("a",), sinks=(f"r{size}",)),
        subtopology("last", (), repartition=(topic("r0"),)),
        subtopology("fixed", (), repartition=fixed, copartition=groups),
    )
    topics = CountingTopics(a=3)
    known = StreamsTopology.of(topology_record(topology(*given)))
    found = configure(known, topics)  # type: ignore[arg-type]
    assert len(found.missing) == 2 * size + 1
    assert topics.asked <= 20 * size
