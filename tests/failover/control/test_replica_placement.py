"""The replicas of a partition are on different hosts and racks, and each node has its share."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failover.control.replica_placement import replica_placement
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": "r2", "e": "r3"}
"""f and g have none."""


def consecutive(count: int, replicas: int) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple((node + more) % count for more in range(min(replicas, count)))
        for node in range(count)
    )


def pairs(values: Iterable[str]) -> int:
    return sum(many * (many - 1) // 2 for many in Counter(values).values())


def cost(nodes: Iterable[int], hosts: Sequence[str]) -> tuple[int, int]:
    """Count the pairs of replicas on one host, and on one rack."""
    used = [hosts[node] for node in nodes]
    return pairs(used), pairs(RACKS.get(host, host) for host in used)


def best_sets(leader: int, hosts: Sequence[str], replicas: int) -> list[tuple[int, ...]]:
    others = [node for node in range(len(hosts)) if node != leader]
    sets = [(leader, *some) for some in combinations(others, min(replicas, len(hosts)) - 1)]
    best = min(cost(some, hosts) for some in sets)
    return [some for some in sets if cost(some, hosts) == best]


@pytest.mark.parametrize(
    ("hosts", "replicas"),
    [
        ("", 3), ("f", 3), ("ff", 3), ("fff", 3), ("fffff", 3), ("fg", 2), ("fgfg", 2),
        ("fge", 3), ("fgefge", 3), ("ace", 3), ("acbd", 2), ("acbd", 3), ("fgef", 1), ("fgg", 5),
        ("ffgg", 3),
    ],
)  # fmt: skip
def test_consecutive_nodes_are_taken_where_that_is_no_worse(hosts: str, replicas: int) -> None:
    assert replica_placement(hosts, RACKS, replicas) == consecutive(len(hosts), replicas)


@pytest.mark.parametrize(
    ("hosts", "replicas", "expected"),
    [
        ("ffgg", 2, ((0, 3), (1, 2), (2, 1), (3, 0))),
        ("fgef", 3, ((0, 1, 2), (1, 2, 3), (2, 0, 1), (3, 1, 2))),
        ("abcd", 2, ((0, 3), (1, 2), (2, 1), (3, 0))),
        ("abce", 3, ((0, 2, 3), (1, 2, 3), (2, 3, 0), (3, 1, 2))),
    ],
)  # fmt: skip
def test_replicas_are_apart(
    hosts: str, replicas: int, expected: tuple[tuple[int, ...], ...]
) -> None:
    placed = replica_placement(hosts, RACKS, replicas)
    assert placed == expected


NODES = st.lists(st.sampled_from("abcdefg"), max_size=16)


@settings(max_examples=examples(200), deadline=None)
@given(NODES, st.integers(1, 5))
def test_no_replicas_share_a_host_or_a_rack_without_need(hosts: list[str], replicas: int) -> None:
    placed = replica_placement(hosts, RACKS, replicas)
    assert len(placed) == len(hosts)
    for leader, nodes in enumerate(placed):
        assert nodes[0] == leader
        assert len(set(nodes)) == len(nodes) == min(replicas, len(hosts))
        assert [(node - leader) % len(hosts) for node in nodes] == sorted(
            (node - leader) % len(hosts) for node in nodes
        )
        assert len({hosts[node] for node in nodes}) == min(len(set(hosts)), len(nodes))
    rows = consecutive(len(hosts), replicas)
    costs = [cost(nodes, hosts) for nodes in placed]
    assert all(mine <= cost(row, hosts) for mine, row in zip(costs, rows, strict=True))
    assert (placed == rows) is (costs == [cost(row, hosts) for row in rows])
    assert replica_placement(hosts, RACKS, replicas) == placed


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from("abcef"), min_size=1, max_size=5), st.integers(1, 4))
def test_nothing_is_better_than_what_is_chosen(hosts: list[str], replicas: int) -> None:
    """Each partition has a best set of nodes, and no other best sets give more equal shares."""

    def squares(sets: Iterable[Sequence[int]]) -> int:
        return sum(many * many for many in Counter(node for some in sets for node in some).values())

    placed = replica_placement(hosts, RACKS, replicas)
    best = [best_sets(leader, hosts, replicas) for leader in range(len(hosts))]
    for nodes, sets in zip(placed, best, strict=True):
        assert tuple(sorted(nodes)) in {tuple(sorted(some)) for some in sets}
    assert squares(placed) == min(map(squares, product(*best)))


def test_many_nodes_in_blocks_have_equal_shares() -> None:
    """Half the nodes are new and took the hosts one after the other."""
    placed = replica_placement("a" * 8 + "b" * 8 + "e" * 8, RACKS, 3)
    loads = Counter(node for nodes in placed for node in nodes)
    assert set(loads.values()) == {3}
