"""Coordinators move from the host with the most to the one with the fewest, and replicas apart."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failover.control.balancing import CoordinatorMove, Departure, balancing_moves, departure
from failover.control.host_placement import CoordinatorHost, host_placement
from failover.control.replica_placement import replica_placement
from failover.partition_kinds import CATALOG
from tests.effort import examples

Racks = Mapping[str, str | None]
Placement = Sequence[tuple[int, ...]]

HOSTS = "abcdefg"
RACKS = st.sampled_from([None, "r1", "r2", "r3"])


def ring(count: int, replicas: int = 3) -> Placement:
    """Return replicas on consecutive nodes."""
    return [tuple((first + more) % count for more in range(replicas)) for first in range(count)]


def racks(hosts: str, of: str = "") -> Racks:
    return dict(zip(hosts, of, strict=True)) if of else dict.fromkeys(hosts)


def after(homes: Sequence[str], moves: Sequence[CoordinatorMove]) -> list[str]:
    moved = list(homes)
    for move in moves:
        assert moved[move.node_id] == move.home != move.host
        moved[move.node_id] = move.host
    return moved


def together(homes: Sequence[str], placement: Placement) -> int:
    """Count the pairs of replicas of a partition that are on one host."""
    return sum(
        homes[one] == homes[other] for nodes in placement for one, other in combinations(nodes, 2)
    )


def difference(homes: Sequence[str], living: Racks) -> int:
    numbers = [list(homes).count(host) for host in living]
    return max(numbers) - min(numbers)


@pytest.mark.parametrize(
    ("homes", "living", "expected"),
    [
        ("abc", racks("abc"), []),
        ("abc", racks("abcd"), []),
        ("abcabc", racks("abcd"), [(0, "d", "a has 2 coordinators and d has 0")]),
        ("abcabc", racks("abcd", "1223"), [(1, "d", "b has 2 coordinators and d has 0")]),
        ("aabc", racks("abcd"), [(0, "d", "a has several replicas of the catalogue")]),
        ("abxabx", racks("ab"), []),
        (
            "ababab",
            racks("abc"),
            [
                (0, "c", "a has several replicas of the catalogue"),
                (3, "c", "b has several replicas of partition 1"),
                (4, "b", "a gets room for another coordinator"),
                (5, "a", "b has several replicas of partition 3"),
            ],
        ),
    ],
    ids=["even", "spare", "joined", "racks", "apart", "a host is away", "two hosts before"],
)
def test_the_moves_of_a_cluster(
    homes: str, living: Racks, expected: list[tuple[int, str, str]]
) -> None:
    moves = balancing_moves(homes, living, ring(len(homes)))
    assert [(move.node_id, move.host, move.reason) for move in moves] == expected


@st.composite
def placed(draw: st.DrawFn) -> tuple[tuple[str, ...], dict[str, str | None], Placement]:
    """A cluster as it is formed: homes, hosts with their racks, and the replicas."""
    hosts = HOSTS[: draw(st.integers(1, 5))]
    there = {host: draw(RACKS) for host in hosts}
    count, replicas = draw(st.integers(1, 14)), draw(st.integers(1, 3))
    known = [CoordinatorHost(address=host, rack=rack) for host, rack in there.items()]
    homes = host_placement(count, known, replicas)
    return homes, there, replica_placement(homes, there, min(replicas, count))


@settings(max_examples=examples(200))
@given(placed())
def test_a_cluster_that_was_just_formed_is_balanced(
    cluster: tuple[tuple[str, ...], Racks, Placement],
) -> None:
    assert balancing_moves(*cluster) == ()


@settings(max_examples=examples(300))
@given(placed(), st.lists(RACKS, min_size=1, max_size=2))
def test_hosts_that_join_get_their_share_with_few_moves(
    cluster: tuple[tuple[str, ...], dict[str, str | None], Placement], joined: list[str | None]
) -> None:
    homes, there, placement = cluster
    living = {**there, **dict(zip("xy", joined, strict=False))}
    moves = balancing_moves(homes, living, placement)
    moved = after(homes, moves)
    assert difference(moved, living) <= 1
    assert together(moved, placement) <= together(homes, placement)
    if together(homes, placement) == 0 and len(there) >= max(map(len, placement)):
        each, more = divmod(len(homes), len(living))
        held = sorted((homes.count(host) for host in living), reverse=True)
        fewest = sum(max(n - each - (i < more), 0) for i, n in enumerate(held))
        assert fewest <= len(moves) <= fewest + 1
        hosts = list(homes)
        for move in moves:
            hosts[move.node_id] = move.host
            assert together(hosts, placement) == 0, "not even between two moves"


@settings(max_examples=examples(300))
@given(st.data())
def test_a_plan_ends_is_the_same_each_time_and_goes_on_where_it_was_interrupted(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(1, 10))
    living = {host: data.draw(RACKS) for host in HOSTS[: data.draw(st.integers(1, 5))]}
    homes = data.draw(st.lists(st.sampled_from(HOSTS), min_size=count, max_size=count))
    placement = ring(count, min(data.draw(st.integers(1, 4)), count))
    moves = balancing_moves(homes, living, placement)
    backwards = dict(reversed(list(living.items())))
    assert balancing_moves(homes, backwards, placement) == moves
    assert balancing_moves(after(homes, moves), living, placement) == ()
    done = data.draw(st.integers(0, len(moves)))
    assert balancing_moves(after(homes, moves[:done]), living, placement) == moves[done:]
    assert {move.host for move in moves} <= {*living}
    assert {move.home for move in moves} <= {*living}, "who is away is not moved"


@settings(max_examples=examples(100))
@given(placed(), st.randoms(use_true_random=False))
def test_a_cluster_in_disorder_is_better_afterwards(
    cluster: tuple[tuple[str, ...], Racks, Placement], random: object
) -> None:
    homes, living, placement = cluster
    mixed = [random.choice([*living]) for _ in homes]  # type: ignore[attr-defined]
    moved = after(mixed, balancing_moves(mixed, living, placement))

    def cost(of: Sequence[str]) -> tuple[int, int]:
        catalog = tuple(range(max(map(len, placement))))
        return together(of, [*placement, catalog]), sum(n * n for n in Counter(of).values())

    assert cost(moved) <= cost(mixed)
    assert (moved == mixed) == (cost(moved) == cost(mixed))


@pytest.mark.parametrize(
    ("homes", "living", "without", "replicas", "expected"),
    [
        (
            "abcdab",
            racks("abcde"),
            "d",
            3,
            [(3, "e", "d is to be taken away")],
        ),
        (
            "abcd",
            racks("abcd"),
            "d",
            1,
            [(3, "a", "d is to be taken away")],
        ),
        (
            "abcdcd",
            racks("abcd"),
            "d",
            2,
            [(3, "a", "d is to be taken away"), (5, "b", "d is to be taken away")],
        ),
        ("abca", racks("abcd"), "d", 3, []),
        ("abcx", racks("abcd"), "d", 3, []),
    ],
    ids=["to a spare host", "one replica", "to others", "nothing is there", "it is away"],
)
def test_the_moves_after_which_a_host_can_be_taken_away(
    homes: str, living: Racks, without: str, replicas: int, expected: list[tuple[int, str, str]]
) -> None:
    found = departure(homes, living, ring(len(homes), replicas), without)
    leaving = [move for move in found.moves if move.home in without]
    assert [(move.node_id, move.host, move.reason) for move in leaving] == expected
    assert not found.crowded


def test_a_host_makes_room_for_what_another_one_leaves() -> None:
    """Coordinator 0 shares a partition with each of the others, and 3 with 1."""
    placement = [(0, 1), (0, 2), (1, 3), (0, 3)]
    found = departure("dacb", racks("abcd"), placement, "d")
    assert [(move.node_id, move.host) for move in found.moves] == [(1, "c"), (0, "a")]
    assert found.moves[0].reason == "a gets room for another coordinator"
    assert not found.crowded


def test_which_partitions_would_share_a_host_is_told() -> None:
    found = departure("abc", racks("abc"), ring(3), "c")
    assert found == Departure(
        (CoordinatorMove(2, "c", "a", "c is to be taken away"),), (CATALOG.first, 0, 1, 2)
    )
    one = departure("abcd", racks("abcd"), [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)], "d")
    assert one.crowded == ()
    assert [(move.node_id, move.host) for move in one.moves] == [(3, "a")]


@settings(max_examples=examples(300))
@given(placed(), st.data())
def test_hosts_are_left_and_replicas_stay_apart_or_it_is_told(
    cluster: tuple[tuple[str, ...], Racks, Placement], data: st.DataObject
) -> None:
    homes, living, placement = cluster
    without = data.draw(st.sets(st.sampled_from([*living]), min_size=1))
    left = {host: rack for host, rack in living.items() if host not in without}
    if not left:
        return
    found = departure(homes, living, placement, without)
    moved = after(homes, found.moves)
    assert not without & {*moved}
    assert not without & {move.host for move in found.moves}
    catalog = tuple(range(max(map(len, placement))))
    grew = together(moved, [*placement, catalog]) > together(homes, [*placement, catalog])
    assert grew == bool(found.crowded)
    done = data.draw(st.integers(0, len(found.moves)))
    again = departure(after(homes, found.moves[:done]), living, placement, without)
    assert not without & {*after(after(homes, found.moves[:done]), again.moves)}
    if not found.crowded:
        assert not again.crowded, "it goes on where it was interrupted"
