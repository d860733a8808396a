"""The hosts of a Ray cluster while ``rollcall up`` plans and forms a cluster on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cluster import ray_calls
from actors.cluster.host_agent import HostAgent
from actors.cluster.ray_calls import NOT_ANSWERED
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
        chosen = self._answer(host, self._agents[host].choose_ports.remote(wanted, before))
        if isinstance(chosen, str):
            raise BadInputError(f"{host}: {chosen}")
        return tuple(chosen)

    def check_certificates(self, settings: TlsSettings) -> None:
        """Check that a coordinator on each host could use these certificates."""
        self._do("check_certificates", settings, raising=BadInputError)

    def save(self, file: ClusterFile) -> None:
        """Write the cluster file on every host."""
        self._do("save", file)

    def accept_copies(self, nodes: int) -> None:
        """Accept old copies of directories on every host."""
        self._do("accept_copies", nodes)

    def set_aside(self, host: str, node_id: int) -> None:
        """Move a node's directory on a host aside, if there is one."""
        if failure := self._answer(host, self._agents[host].set_aside.remote(node_id)):
            raise FailureError(f"{host}: {failure}")

    def close(self) -> None:
        """End the agents."""
        for agent in self._agents.values():
            ray_calls.end(agent)

    def _do(
        self, method: str, *arguments: object, raising: type[CommandError] = FailureError
    ) -> None:
        for host, failure in zip(self._agents, self._ask(method, *arguments), strict=True):
            if failure:
                raise raising(f"{host}: {failure}")

    def _ask(self, method: str, *arguments: object) -> list[Any]:
        calls = [getattr(agent, method).remote(*arguments) for agent in self._agents.values()]
        return [self._answer(host, call) for host, call in zip(self._agents, calls, strict=True)]

    @staticmethod
    def _answer(host: str, call: Any) -> Any:
        try:
            return ray_calls.answer(call, ANSWER_S)
        except NOT_ANSWERED as error:
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
