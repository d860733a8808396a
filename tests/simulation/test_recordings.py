"""What simulated coordinators record, through failovers and migrations, replays as it was."""

from collections import Counter

import pytest

from failover.recording.dump import About, read_dump, write_dump
from failover.recording.recorder import BYTES_MAX
from failover.recording.replay import replay
from failover.simulation import cluster as clusters
from failover.simulation import one_seed
from failover.simulation.cluster import SimulatedCluster
from failover.simulation.world import World
from protocol.config import Configs

ABOUT = About(version="1", cluster_id="cluster", node_id=0, at_ms=0)


def replayed(cluster: SimulatedCluster, counts: Counter[str]) -> None:
    """Replay what every process of a cluster has recorded."""
    for process in cluster.processes:
        host = process.host
        recordings = [] if host is None else host.recorder.recordings("the end")
        for dump in read_dump(write_dump(recordings, Configs(), ABOUT)):
            again = replay(dump)
            assert again.differences == []
            assert again.failures == []
            counts.update(step.what for step in dump.steps)
            counts["recordings"] += 1
            counts["sessions"] += sum(len(step.sessions) for step in dump.steps)


@pytest.mark.parametrize(("ring_bytes", "events"), [(2_000_000, 100), (150_000, 1)])
def test_recordings_of_simulated_clusters_replay(
    ring_bytes: int, events: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()
    configs, live = clusters._configs, one_seed._live

    def with_recording(world: World) -> dict[str, str]:
        return {**configs(world), BYTES_MAX: str(ring_bytes)}

    def live_and_replay(cluster: SimulatedCluster) -> None:
        live(cluster)
        replayed(cluster, counts)

    monkeypatch.setattr(clusters, "_configs", with_recording)
    monkeypatch.setattr(one_seed, "_live", live_and_replay)
    for seed in (7_001, 7_006, 7_007):
        violation = one_seed.run_seed(seed).violation
        assert violation is None, violation
    assert counts["recordings"] >= 1
    assert counts["event"] >= events
