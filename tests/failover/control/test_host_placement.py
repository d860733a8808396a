"""Coordinators stay with their data; the others are spread over hosts and racks."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failover.control.host_placement import (
    AmbiguousHostError,
    CoordinatorHost,
    host_placement,
    missing,
    positions,
)
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": "r2", "e": "r3", "f": "r1"}


def host(address: str, *node_ids: int, rack: str | None = None) -> CoordinatorHost:
    return CoordinatorHost(address=address, rack=rack, node_ids=frozenset(node_ids))


def near(
    placed: Sequence[str], distance: int, of: Callable[[str], str] = lambda address: address
) -> int:
    """Count the nodes whose host (or rack) is that of the node so many ids farther."""
    count = len(placed)
    return sum(of(placed[i]) == of(placed[(i + distance) % count]) for i in range(count))


@pytest.mark.parametrize(
    ("count", "hosts", "expected"),
    [
        (1, [host("a"), host("b")], "a"),
        (3, [host("a")], "aaa"),
        (3, [host("c"), host("a"), host("b")], "abc"),
        (3, [host(f"10.0.0.{n}") for n in (10, 9, 2)], "10.0.0.2 10.0.0.9 10.0.0.10"),
        (6, [host("a"), host("b"), host("c")], "abcabc"),
        (4, [host("a"), host("b"), host("c")], "abcb"),
        (5, [host("a"), host("b")], "ababa"),
        (4, [host(each, rack=RACKS[each]) for each in "abcd"], "acbd"),
        (4, [host(each, rack=RACKS[each]) for each in "abce"], "caeb"),
        (6, [host("a", rack="r1"), host("b", rack="r1"), host("c", rack="r2")], "acbacb"),
    ],
)
def test_new_coordinators_are_spread(
    count: int, hosts: list[CoordinatorHost], expected: str
) -> None:
    placed = host_placement(count, hosts)
    assert placed == tuple(expected.split() if " " in expected else expected)
    assert host_placement(count, hosts[::-1]) == placed


@pytest.mark.parametrize(
    ("count", "hosts", "expected"),
    [
        (3, [host("a", 2), host("b", 0), host("c", 1)], "bca"),
        (3, [host("a", 0, 1, 2), host("b"), host("c")], "aaa"),
        (3, [host("a", 0), host("b", 2), host("c")], "acb"),
        (3, [host("a", 0), host("b", 2)], "aab"),
        (6, [host("a", 0, 3), host("b", 1, 4), host("d")], "abdabd"),
        (6, [host("a", 0, 3), host("b", 1, 4), host("c"), host("d")], "abcabd"),
        (5, [host("a", 0, 1, 2), host("b"), host("c")], "aaabc"),
        (
            4,
            [host("a", 0, rack="r1"), host("b", rack="r1"), host("c", 1, rack="r2"), host("d")],
            "acbd",
        ),
    ],
)  # fmt: skip
def test_a_coordinator_stays_with_its_data(
    count: int, hosts: list[CoordinatorHost], expected: str
) -> None:
    assert host_placement(count, hosts) == tuple(expected)


def test_data_on_two_hosts_is_for_the_caller_to_judge() -> None:
    with pytest.raises(AmbiguousHostError) as raised:
        host_placement(3, [host("c", 1, 2), host("a", 1), host("b", 0)])
    assert str(raised.value) == "The data of node 1 is on several hosts: a, c."
    assert (raised.value.node_id, raised.value.addresses) == (1, ("a", "c"))


HOSTS = st.sets(st.sampled_from("abcdef"), min_size=1)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 16), HOSTS, st.data())
def test_data_counts_first_then_even_numbers(
    count: int, names: set[str], data: st.DataObject
) -> None:
    held = data.draw(
        st.dictionaries(st.integers(0, max(count - 1, 0)), st.sampled_from(sorted(names)))
    )
    held = {node_id: name for node_id, name in held.items() if node_id < count}
    hosts = [
        host(name, *(node_id for node_id in held if held[node_id] == name), rack=RACKS[name])
        for name in data.draw(st.permutations(sorted(names)))
    ]
    placed = host_placement(count, hosts)
    assert len(placed) == count
    assert {node_id: placed[node_id] for node_id in held} == held
    assert host_placement(count, sorted(hosts, key=lambda each: each.address)) == placed
    counts, own = Counter(placed), Counter(held.values())
    for name in counts:
        is_given = counts[name] > own[name]
        assert not is_given or counts[name] <= min(counts[each] for each in names) + 1


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(2, 30), HOSTS)
def test_neighbours_are_on_different_hosts_if_that_is_possible(count: int, names: set[str]) -> None:
    placed = host_placement(count, [host(name) for name in names])
    most = max(Counter(placed).values())
    assert (near(placed, 1) == 0) is (2 * most <= count)
    if count % len(names) == 0:
        assert placed == tuple(sorted(names)) * (count // len(names))


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(2, 6), st.sets(st.sampled_from("abcde"), min_size=2, max_size=3))
def test_no_other_placement_of_new_coordinators_is_better(count: int, names: set[str]) -> None:
    """Pairs on a host count first, next to each other and two apart; then those on a rack."""

    def cost(placed: Sequence[str]) -> tuple[int, ...]:
        squares = sum(many * many for many in Counter(placed).values())
        reach = range(1, min(2, count // 2) + 1)
        on_hosts = (near(placed, distance) for distance in reach)
        return (
            squares,
            *on_hosts,
            *(near(placed, distance, RACKS.__getitem__) for distance in reach),
        )

    placed = host_placement(count, [host(name, rack=RACKS[name]) for name in names])
    assert cost(placed) == min(map(cost, product(sorted(names), repeat=count)))


def test_coordinators_of_one_host_are_numbered() -> None:
    assert positions("abacab") == (0, 0, 1, 0, 2, 1)
    assert positions(()) == ()


FACTOR = "offsets.topic.replication.factor"


@pytest.mark.parametrize(
    ("hosts", "replicas", "sentence"),
    [
        ("abc", 3, ""),
        ("abcd", 3, ""),
        ("a", 1, ""),
        (
            "abb", 3,
            f"{FACTOR} is 3, but there are 2 hosts: partitions have 2 replicas on one host and"
            " stop without it; join 1 more host to Ray",
        ),
        (
            "a", 3,
            f"{FACTOR} is 3, but there is 1 host: partitions have 3 replicas on one host and stop"
            " without it; join 2 more hosts to Ray",
        ),
        (
            "abc", 5,
            f"{FACTOR} is 5, but there are 3 hosts: partitions have 2 replicas on one host; join 2"
            " more hosts to Ray",
        ),
    ],
)  # fmt: skip
def test_an_operator_is_told_how_many_hosts_are_missing(
    hosts: str, replicas: int, sentence: str
) -> None:
    assert missing(hosts, replicas) == sentence
