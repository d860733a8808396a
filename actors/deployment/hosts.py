"""The hosts of a Ray cluster while a command or the controller works on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from actors.cluster import ray_calls
from actors.cluster.data_dir import render
from actors.cluster.directory_copy import DirectoryContent
from actors.cluster.host_agent import HostAgent
from actors.cluster.ray_calls import CallError
from actors.cluster.ray_peers import first_line
from actors.deployment.planning import (
    ClusterPlan,
    agreed_file,
    cluster_file,
    homes_of,
    plan_cluster,
    with_replica_nodes,
)
from actors.errors import BadInputError, CommandError, FailureError
from actors.peers.tls import tls_settings
from actors.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.cluster.data_dir import ClusterFile
    from actors.cluster.host_agent import HostReport
    from actors.cluster.spec import Address
    from actors.deployment.planning import PlanRequest
    from actors.peers.tls import TlsSettings

T = TypeVar("T")

ANSWER_S: Final = 30.0
"""How long a host may take to start a process that looks at it."""


HOSTS_S: Final = 300.0
"""How long a new cluster waits for its hosts: machines that start together take minutes."""

LOOK_S: Final = 1.0


def await_hosts(wanted: int) -> None:
    """Wait until the Ray cluster has that many hosts; raises FailureError if it has not in time."""
    found = poll(
        lambda: len(ray_calls.living_hosts()),
        HOSTS_S,
        is_done=lambda there: there >= wanted,
        every_s=LOOK_S,
    )
    if found < wanted:
        raise FailureError(
            f"Only {found} of {wanted} hosts have joined this Ray in {HOSTS_S:g} s. Run "
            "`ray start --address` on the others."
        )


class Hosts:
    """One agent on each host of the Ray cluster to which this process is connected."""

    def __init__(self, directory: str) -> None:
        self._agents = {
            address: ray_calls.helper(HostAgent, node_id, address, directory)
            for address, node_id in ray_calls.living_hosts().items()
        }

    def reports(self) -> list[HostReport]:
        """Return what each host holds, sorted by address."""
        return self._ask("report")

    def choose_ports(
        self, host: str, wanted: Sequence[Address], before: Sequence[int]
    ) -> tuple[int, ...]:
        """Return ports to listen on; those of a host that is away are taken as they were."""
        if host not in self._agents:
            last = before if len(before) == len(wanted) else [0] * len(wanted)
            return tuple(one.port or port for one, port in zip(wanted, last, strict=True))
        chosen = _answer(host, self._agents[host].choose_ports.remote(wanted, before))
        if isinstance(chosen, str):
            raise BadInputError(f"{host}: {chosen}")
        return tuple(chosen)

    def check_certificates(self, settings: TlsSettings) -> None:
        """Check that a coordinator on each host could use these certificates."""
        self._do("check_certificates", settings, raising=BadInputError)

    def save(self, file: ClusterFile) -> None:
        """Write the cluster file on every host."""
        self._do("save", render(file))

    def accept_copies(self, nodes: int) -> None:
        """Accept old copies of directories on every host."""
        self._do("accept_copies", nodes)

    def set_aside(self, host: str, node_id: int, why: str) -> None:
        """Move a node's directory on a host aside, if there is one."""
        if failure := _answer(host, self._agent(host).set_aside.remote(node_id, why)):
            raise FailureError(f"{host}: {failure}")

    def copier(self, host: str) -> RemoteCopier:
        """Return what copies directories on a host."""
        return RemoteCopier(host, self._agent(host))

    def close(self) -> None:
        """End the agents."""
        for agent in self._agents.values():
            ray_calls.end(agent)

    def _agent(self, host: str) -> Any:
        if host not in self._agents:
            raise FailureError(f"The host {host} is not in the Ray cluster now.")
        return self._agents[host]

    def _do(
        self, method: str, *arguments: object, raising: type[CommandError] = FailureError
    ) -> None:
        for host, failure in zip(self._agents, self._ask(method, *arguments), strict=True):
            if failure:
                raise raising(f"{host}: {failure}")

    def _ask(self, method: str, *arguments: object) -> list[Any]:
        calls = [getattr(agent, method).remote(*arguments) for agent in self._agents.values()]
        return [_answer(host, call) for host, call in zip(self._agents, calls, strict=True)]


class RemoteCopier:
    """Copies directories on one host (:class:`actors.deployment.copying.Copier`)."""

    def __init__(self, host: str, agent: Any) -> None:
        self._host = host
        self._agent = agent

    def content(self, node_id: int) -> DirectoryContent:
        """List a coordinator's directory."""
        return self._call(DirectoryContent, "content", node_id)

    def lend(self, node_id: int) -> DirectoryContent:
        """List a stopped coordinator's directory and keep it closed."""
        return self._call(DirectoryContent, "lend", node_id)

    def take_back(self, node_id: int) -> None:
        """Let a coordinator open its directory again."""
        self._do("take_back", node_id)

    def read(self, node_id: int, name: str, offset: int) -> bytes:
        """Return a piece of a file; empty at its end."""
        return self._call(bytes, "read", node_id, name, offset)

    def checksum(self, node_id: int, name: str) -> bytes:
        """Return the checksum of a file that was lent."""
        return self._call(bytes, "checksum", node_id, name)

    def expect(self, node_id: int, size_bytes: int) -> None:
        """Prepare for a copy."""
        self._do("expect", node_id, size_bytes)

    def append(self, node_id: int, name: str, piece: bytes) -> None:
        """Write a piece of a file behind the one before."""
        self._do("append", node_id, name, piece)

    def arrived(self, node_id: int, name: str) -> bytes:
        """Sync a file that arrived; return its checksum."""
        return self._call(bytes, "arrived", node_id, name)

    def install(self, node_id: int, text: str) -> None:
        """Put a complete copy in its place."""
        self._do("install", node_id, text)

    def _do(self, method: str, *arguments: object) -> None:
        if failure := self._call(str, method, *arguments):
            raise FailureError(f"{self._host}: {failure}")

    def _call(self, wanted: type[T], method: str, *arguments: object) -> T:
        """Call the host; a sentence that is not wanted is an error."""
        found = _answer(self._host, getattr(self._agent, method).remote(*arguments))
        if not isinstance(found, wanted):
            raise FailureError(f"{self._host}: {found}")
        return found


def _answer(host: str, call: Any) -> Any:
    try:
        return ray_calls.answer(call, ANSWER_S)
    except CallError as error:
        raise FailureError(f"The host {host} does not answer: {first_line(error)}") from error


def plan_on_hosts(request: PlanRequest, hosts: Hosts) -> ClusterPlan:
    """Plan a cluster on the hosts of a Ray cluster."""
    reports = hosts.reports()
    if (tls := tls_settings(request.configs)) is not None:
        hosts.check_certificates(tls)
    file = cluster_file(request, agreed_file(reports, Path(request.data_dir)))
    homes = homes_of(file, reports)
    file = with_replica_nodes(file, homes, reports)
    return plan_cluster(request, file, homes, hosts.choose_ports)
