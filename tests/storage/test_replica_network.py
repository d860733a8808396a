"""Replicas in a network that loses, doubles, delays and reorders, on machines that die."""

import pytest

from tests.effort import examples
from tests.storage.replica_network import Network, calm_down, shorten_logs, torment


@pytest.mark.parametrize("seed", range(examples(100)))
def test_whatever_happens_nothing_committed_is_lost_and_all_agree_in_the_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_logs(monkeypatch)
    network = Network(seed, nodes=(3, 3, 5, 2, 3, 1)[seed % 6], learners=(0, 1)[seed % 2])
    torment(network, steps=60)
    assert calm_down(network), "when faults stop, all agree"
