"""A restore to several hosts: each gets its nodes, and all the cluster file. Needs no Ray."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.backup.files import verify
from actors.backup.host_restoring import plan_restored, restore_on_hosts
from actors.backup.manifest import Manifest
from actors.backup.restore_agent import RestoreAgent
from actors.cluster.data_dir import ClusterFile, open_data_dir, render
from actors.cluster.host_agent import HostReport, directories_in
from actors.deployment.planning import agreed_file, homes_of
from actors.errors import BadInputError, FailureError
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from tests.actors.backup.backups import CLUSTER_ID, committed, write_backup

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
EMPTY = [HostReport(address=host) for host in HOSTS]
ROWS = {0: [committed("a", 1)], 2: [committed("b", 2)]}


class LocalAgents:
    """Agents in this process, with a directory for each host."""

    def __init__(self, path: Path) -> None:
        self.directories = {host: path / host for host in HOSTS}
        self.fails: tuple[str, str] = ("", "")
        self._agents = {
            host: RestoreAgent(str(directory)) for host, directory in self.directories.items()
        }

    @property
    def hosts(self) -> tuple[str, ...]:
        return HOSTS

    def ask(self, host: str, method: str, *arguments: object) -> Any:
        if (host, method) == self.fails:
            raise FailureError(f"The host {host} does not answer")
        return getattr(self._agents[host], method)(*arguments)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    write_backup(tmp_path / "b", ROWS, partitions=3, replicas=2)
    return tmp_path / "b"


@pytest.fixture
def agents(tmp_path: Path) -> LocalAgents:
    return LocalAgents(tmp_path)


def planned(reports: list[HostReport], replicas: int | None = None) -> ClusterFile:
    manifest = Manifest(cluster_id=CLUSTER_ID, partitions=3, replicas=2, files=())
    return plan_restored(manifest, Path("/data"), replicas, reports)


def test_the_nodes_are_spread_over_the_hosts() -> None:
    cluster = planned(EMPTY)
    assert cluster.hosts == HOSTS
    assert cluster.cluster_id == CLUSTER_ID
    assert (cluster.partitions, cluster.replicas) == (3, 2)
    assert cluster.replica_nodes == ((0, 1), (1, 2), (2, 0))
    assert planned(EMPTY, 1).replica_nodes == ((0,), (1,), (2,))


def test_hosts_with_data_are_refused() -> None:
    there = [*EMPTY[:2], replace(EMPTY[2], file=render(planned(EMPTY)))]
    with pytest.raises(BadInputError, match=r"10.0.0.3: /data belongs to a cluster"):
        planned(there)
    with pytest.raises(BadInputError, match=r"10.0.0.1: no room"):
        planned([replace(EMPTY[0], failure="no room")])


def test_every_host_gets_its_nodes_and_the_cluster_file(backup: Path, agents: LocalAgents) -> None:
    manifest = verify(backup)
    cluster = plan_restored(manifest, Path("/data"), None, EMPTY)
    restore_on_hosts(backup, manifest, cluster, agents)
    reports = []
    for node_id, (host, directory) in enumerate(agents.directories.items()):
        file = open_data_dir(directory)
        assert file is not None
        found = directories_in(directory)
        assert found == {node_id: file.directories[node_id]}
        reports.append(HostReport(address=host, file=render(file), directories=found))
        assert not (directory / ".restored-backup").exists()
        log = RocksLog.open(
            directory / f"node-{node_id}",
            LogIdentity(
                cluster_id=CLUSTER_ID,
                node_id=node_id,
                partitions=3,
                others=(1_000_000, 1_000_001, 1_000_002),
            ),
        )
        for number in range(3):
            is_held = node_id in cluster.replica_nodes[number]
            assert list(log.state(number)) == (ROWS.get(number, []) if is_held else [])
        log.close()
    agreed = agreed_file(reports, Path("/data"))
    assert agreed is not None
    assert homes_of(agreed, reports) == HOSTS


@pytest.mark.parametrize("method", ["receive", "write_nodes"])
def test_what_fails_leaves_nothing_on_any_host(
    backup: Path, agents: LocalAgents, method: str
) -> None:
    manifest = verify(backup)
    cluster = plan_restored(manifest, Path("/data"), None, EMPTY)
    agents.fails = (HOSTS[2], method)
    with pytest.raises(FailureError, match=r"10.0.0.3 does not answer"):
        restore_on_hosts(backup, manifest, cluster, agents)
    for directory in agents.directories.values():
        assert list(directory.iterdir()) == []


def test_a_host_that_holds_data_stops_all(backup: Path, agents: LocalAgents) -> None:
    manifest = verify(backup)
    cluster = plan_restored(manifest, Path("/data"), None, EMPTY)
    restore_on_hosts(backup, manifest, cluster, agents)
    with pytest.raises(FailureError, match=r"10.0.0.1: .* belongs to a cluster"):
        restore_on_hosts(backup, manifest, cluster, agents)
    assert open_data_dir(agents.directories[HOSTS[0]]) is not None
