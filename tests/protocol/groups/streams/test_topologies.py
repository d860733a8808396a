"""How many partitions internal topics have, and which topics a topology lacks: Kafka's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.groups.streams.configured import configure
from protocol.groups.streams.topology import StreamsTopology, topology_record
from protocol.wire.errors import ErrorCode
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
