"""Makes the data directories of a cluster on several hosts from a backup on one of them."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.backup.files import CHUNK_BYTES, segment_path, verify
from actors.backup.manifest import MANIFEST
from actors.backup.restore_agent import RestoreAgent
from actors.cluster import ray_calls
from actors.cluster.ray_calls import NOT_ANSWERED
from actors.cluster.ray_peers import first_line
from actors.cluster.spec import REPLICATION_FACTOR
from actors.deployment.hosts import Hosts
from actors.deployment.planning import (
    PARTITIONS,
    PlanRequest,
    cluster_file,
    homes_of,
    with_replica_nodes,
)
from actors.errors import BadInputError, FailureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from actors.backup.manifest import Manifest
    from actors.cluster.data_dir import ClusterFile
    from actors.cluster.host_agent import HostReport

WRITE_S: Final = 600.0
"""How long a host may take for one step: to write the state of its nodes is the longest."""


class RestoreAgents(Protocol):
    """The agents on the hosts."""

    @property
    def hosts(self) -> Sequence[str]:
        """The addresses of the hosts."""

    def ask(self, host: str, method: str, *arguments: object) -> Any:
        """Call a method of :class:`RestoreAgent` on a host. Raises FailureError."""


class RayRestoreAgents:
    """One agent on each host of the Ray cluster to which this process is connected."""

    def __init__(self, directory: Path) -> None:
        self._agents = {
            address: ray_calls.helper(RestoreAgent, node_id, str(directory))
            for address, node_id in ray_calls.living_hosts().items()
        }

    @property
    def hosts(self) -> tuple[str, ...]:
        """The addresses of the hosts."""
        return tuple(self._agents)

    def ask(self, host: str, method: str, *arguments: object) -> Any:
        """Call a method of the agent on a host. Raises FailureError."""
        try:
            call = getattr(self._agents[host], method).remote(*arguments)
            return ray_calls.answer(call, WRITE_S)
        except NOT_ANSWERED as error:
            raise FailureError(f"The host {host} does not answer: {first_line(error)}") from error

    def close(self) -> None:
        """End the agents."""
        for agent in self._agents.values():
            ray_calls.end(agent)


def restore_on_ray(backup: Path, directory: Path, replicas: int | None) -> Sequence[str]:
    """Restore on the hosts of the Ray cluster to which this process is connected; return them.

    Raises CommandError.
    """
    manifest = verify(backup)
    with closing(Hosts(str(directory))) as hosts:
        cluster = plan_restored(manifest, directory, replicas, hosts.reports())
    with closing(RayRestoreAgents(directory)) as agents:
        restore_on_hosts(backup, manifest, cluster, agents)
        return agents.hosts


def plan_restored(
    manifest: Manifest, directory: Path, replicas: int | None, reports: Sequence[HostReport]
) -> ClusterFile:
    """Return the file of a cluster with the nodes of a backup, on hosts that hold no data."""
    for report in reports:
        if report.failure:
            raise BadInputError(f"{report.address}: {report.failure}")
        if report.file:
            raise BadInputError(
                f"{report.address}: {directory} belongs to a cluster: restore to a new data "
                "directory."
            )
    factor = manifest.replicas if replicas is None else replicas
    overrides = {PARTITIONS: str(manifest.partitions), REPLICATION_FACTOR: str(factor)}
    file = cluster_file(PlanRequest(data_dir=directory, overrides=overrides), None)
    homes = homes_of(file, reports)
    file = with_replica_nodes(file, homes, reports)
    return replace(file, cluster_id=manifest.cluster_id, hosts=homes, revision=1)


def restore_on_hosts(
    backup: Path, manifest: Manifest, cluster: ClusterFile, agents: RestoreAgents
) -> None:
    """Send the backup to each host with nodes, make the nodes there, and complete them.

    If that fails, all of it is removed. Raises CommandError.
    """
    for host in agents.hosts:
        _do(agents, host, "begin")
    try:
        directories = _written(backup, manifest, cluster, agents)
    except BaseException:
        for host in agents.hosts:
            with suppress(FailureError):
                agents.ask(host, "clear")
        raise
    for host in agents.hosts:
        _do(agents, host, "complete", cluster, directories)


def _written(
    backup: Path, manifest: Manifest, cluster: ClusterFile, agents: RestoreAgents
) -> tuple[str, ...]:
    """Make all nodes; return their directory ids in order."""
    ids: dict[int, str] = {}
    for host in agents.hosts:
        node_ids = [node_id for node_id, home in enumerate(cluster.hosts) if home == host]
        if not node_ids:
            continue
        for partition, data in _pieces(backup, manifest):
            _do(agents, host, "receive", partition, data)
        found = agents.ask(host, "write_nodes", cluster, node_ids)
        if isinstance(found, str):
            raise FailureError(f"{host}: {found}")
        ids |= found
    return tuple(ids[node_id] for node_id in range(cluster.partitions))


def _pieces(backup: Path, manifest: Manifest) -> Iterator[tuple[int | None, bytes]]:
    """Yield the files of a backup in pieces: each with its partition, the manifest with None."""
    for row in manifest.files:
        with segment_path(backup, row.partition).open("rb") as file:
            yield row.partition, b""
            while data := file.read(CHUNK_BYTES):
                yield row.partition, data
    yield None, (backup / MANIFEST).read_bytes()


def _do(agents: RestoreAgents, host: str, method: str, *arguments: object) -> None:
    if failure := agents.ask(host, method, *arguments):
        raise FailureError(f"{host}: {failure}")
