"""Which node a load's members ask for their coordinator."""

from dataclasses import dataclass

import pytest

from bench.client.coordinator_lookup import LookupConnections

NODES = [("a", 1), ("b", 1), ("c", 1)]


@dataclass
class Idle:
    """A connection without requests."""

    address: tuple[str, int]
    in_flight: int = 0


@pytest.fixture
def connections():
    return LookupConnections(NODES, Idle)


def asked(connections, times=9):
    return {connections.next().address for _ in range(times)}


def test_all_nodes_are_asked_in_turn(connections):
    assert asked(connections) == set(NODES)


@pytest.mark.parametrize("what", ["broke", "did_not_answer"])
def test_a_node_that_fails_is_left_alone_while_others_answer(connections, what):
    getattr(connections, what)(NODES[0])
    assert asked(connections) == {*NODES[1:]}
    for node in NODES[1:]:
        getattr(connections, what)(node)
    assert asked(connections) == set(NODES), "when all fail, any is as good"


def test_a_node_with_fewer_requests_goes_first(connections):
    for each in connections.all:
        each.in_flight = int(each.address != NODES[1])
    assert asked(connections) == {NODES[1]}
