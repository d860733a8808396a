"""A leader that has nothing to say and nobody to answer rests: few signs of life, and no lease."""

import pytest

from storage.leadership import USED_MS
from storage.messages import Append
from storage.replica import Replica
from tests.effort import examples
from tests.storage.replica_network import TIMING, Network, Node, calm_down, shorten_logs, torment

A_SECOND_MS = 1_000


class Counting(Network):
    """Counts the leaders' signs of life."""

    beats = 0

    def send(self, node, messages):
        self.beats += sum(isinstance(message, Append) for _, message in messages)
        super().send(node, messages)

    def beats_in(self, duration_ms: float) -> int:
        before = self.beats
        self.run(duration_ms)
        return self.beats - before


def at_rest() -> tuple[Counting, Node, Replica]:
    network = Counting(1, nodes=3)
    assert network.run(5_000, lambda: network.is_calm)
    network.run(USED_MS + A_SECOND_MS)
    node = network.leader
    assert node is not None
    assert node.replica is not None
    return network, node, node.replica


def test_a_leader_that_nobody_asks_gives_few_signs_of_life_and_stays_leader() -> None:
    network, node, _ = at_rest()
    most = 2 * (A_SECOND_MS * 1.05 / TIMING.rest_ms + 1)
    assert 0 < network.beats_in(A_SECOND_MS) <= most
    network.run(60_000)
    assert network.leader is node
    assert len(network.leaders) == 1


def test_a_leader_at_rest_that_is_asked_has_a_lease_after_one_round() -> None:
    network, node, leader = at_rest()
    assert network.run(A_SECOND_MS, lambda: network.clock(node) > leader.lease_until_ms + 5)
    leader.need_lease(network.clock(node))
    network.pump(node)
    holds = 2 * network.faults.delay_ms + 2 * network.faults.write_ms
    assert network.run(holds, lambda: network.clock(node) < leader.lease_until_ms)


def test_as_long_as_it_is_asked_now_and_then_its_lease_never_ends() -> None:
    network, node, leader = at_rest()
    leader.need_lease(network.clock(node))
    network.pump(node)
    network.run(20)
    for _ in range(int(USED_MS / 10)):
        network.run(10)
        assert network.clock(node) < leader.lease_until_ms


def test_records_end_the_rest_until_everybody_knows_that_they_are_committed() -> None:
    network, node, leader = at_rest()
    network.propose(node)
    network.run(2 * TIMING.heartbeat_ms)
    marks = {each.replica.high_watermark for each in network.nodes.values() if each.replica}
    assert marks == {leader.end_offset}


def test_a_leader_does_not_rest_while_a_voter_is_away() -> None:
    network, node, _ = at_rest()
    away = next(each for each in network.nodes.values() if each is not node)
    network.crash(away)
    for other in network.nodes.values():
        if other.replica is not None:
            other.replica.peer_down(away.key.node_id, network.clock(other))
    network.run(TIMING.rest_ms)
    assert network.beats_in(A_SECOND_MS) >= 0.9 * A_SECOND_MS / TIMING.heartbeat_ms


@pytest.mark.parametrize("seed", range(examples(60)))
def test_with_leaders_that_always_want_to_rest_nothing_is_lost_and_no_two_leases_meet(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_logs(monkeypatch)
    monkeypatch.setattr("storage.leadership.USED_MS", 0)
    network = Network(seed, nodes=(3, 3, 5, 2)[seed % 4], learners=(0, 1)[seed % 2])
    torment(network, steps=60)
    assert calm_down(network), "when faults stop, all agree"
