"""Plans a cluster before its coordinators start: their hosts, addresses, ports and replicas.

A plan is made from what the operator asked for, the cluster file and what the hosts report. On the
cluster's own Ray there is one host, whose reports are not needed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from actors.cluster import data_dir
from actors.cluster.data_dir import CLUSTER_FILE, ClusterFile
from actors.cluster.listening_ports import DEFAULT_PORT, LOCAL_HOST
from actors.cluster.spec import (
    REPLICATION_FACTOR,
    WILDCARDS,
    Address,
    ClusterSpec,
    CoordinatorPlace,
)
from actors.errors import BadInputError
from failover.control.host_placement import CoordinatorHost, host_placement, positions
from failover.control.replica_placement import replica_placement
from protocol.config import ConfigError, Configs
from protocol.listeners import (
    ADVERTISED,
    CONSOLE_PORT,
    LISTENERS,
    RAY_NODE_ADDRESS,
    check_cluster,
    listener_addresses,
    replica_port,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from actors.cluster.host_agent import HostReport

SECRET: Final = "cluster.secret"
PARTITIONS: Final = "offsets.topic.num.partitions"
WORKERS: Final = "group.coordinator.background.threads"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What the operator asked for. ``host`` and ``port`` are None if they were not given."""

    data_dir: Path
    overrides: Mapping[str, str]
    host: str | None = None
    port: int | None = None

    def __post_init__(self) -> None:
        """Raise BadInputError for values that contradict each other."""
        if LISTENERS in self.overrides and (self.host, self.port) != (None, None):
            raise BadInputError(f"Give {LISTENERS}, or --host and --port, but not both.")
        if self.host is not None and self.host in WILDCARDS and ADVERTISED not in self.overrides:
            raise BadInputError(
                f"--host {self.host} is not an address that clients can use: give another one, "
                f"or set {ADVERTISED}."
            )

    @property
    def configs(self) -> Configs:
        """The configs, with the ``listeners`` that ``--host`` and ``--port`` stand for."""
        if LISTENERS in self.overrides:
            return Configs(self.overrides)
        port = DEFAULT_PORT if self.port is None else self.port
        listener = f"PLAINTEXT://{Address(host=self.host or RAY_NODE_ADDRESS, port=port)}"
        return Configs({**self.overrides, LISTENERS: listener})


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster that can be started, and its cluster file."""

    spec: ClusterSpec
    file: ClusterFile


class PortChooser(Protocol):
    """Chooses ports on a host; the host is "" on the cluster's own Ray."""

    def __call__(
        self, host: str, wanted: Sequence[Address], before: Sequence[int]
    ) -> tuple[int, ...]:
        """Return the ports to listen on; raises BadInputError."""


def cluster_file(request: PlanRequest, before: ClusterFile | None) -> ClusterFile:
    """Return the file of a new cluster, or that of the last start if what is fixed has not changed.

    Raises :class:`actors.errors.BadInputError`.
    """
    configs = Configs(request.overrides)
    partitions, replicas = configs.integer(PARTITIONS), configs.integer(REPLICATION_FACTOR)
    secret = configs.text(SECRET)
    if before is None:
        return ClusterFile(
            cluster_id=data_dir.new_cluster_id(),
            partitions=partitions,
            ports=(),
            replicas=replicas,
            secret=secret or data_dir.new_secret(),
        )
    for name, wanted, fixed in (
        (PARTITIONS, partitions, before.partitions),
        (REPLICATION_FACTOR, replicas, before.replicas),
    ):
        if name in request.overrides and wanted != fixed:
            raise BadInputError(
                f"{request.data_dir} was created with {name}={fixed}, "
                f"which cannot be changed to {wanted} after the first start."
            )
    return replace(before, secret=secret or before.secret)


def agreed_file(reports: Sequence[HostReport], directory: Path) -> ClusterFile | None:
    """Return the newest cluster file of the hosts; None if none of them has one.

    Raises :class:`actors.errors.BadInputError` if a host cannot be used, or if they belong to
    different clusters.
    """
    newest: ClusterFile | None = None
    newest_at = ""
    for report in reports:
        if report.failure:
            raise BadInputError(f"{report.address}: {report.failure}")
        if not report.file:
            continue
        found = data_dir.parse(report.file, f"{report.address}:{directory / CLUSTER_FILE}")
        if newest is not None and found.cluster_id != newest.cluster_id:
            raise BadInputError(
                f"{directory} belongs to cluster {newest.cluster_id} on {newest_at}, but to "
                f"{found.cluster_id} on {report.address}. Use another data directory."
            )
        if newest is None or found.revision > newest.revision:
            newest, newest_at = found, report.address
    return newest


def homes_of(file: ClusterFile, reports: Sequence[HostReport]) -> tuple[str, ...]:
    """Return the host of each coordinator: the one with its directory, else its last one, else any.

    A directory of a node that was moved counts only where the node ran last. Raises
    :class:`actors.errors.BadInputError` if several hosts have the directory of a node that last
    ran on none of them.
    """
    homes: dict[int, str] = {}
    there = {report.address for report in reports}
    for node_id in range(file.partitions):
        last = file.hosts[node_id] if file.hosts else ""
        found = [report.address for report in reports if node_id in report.directories]
        if node_id in file.moved:
            homes[node_id] = last
            continue
        if len(found) > 1 and last not in found:
            raise BadInputError(
                f"node-{node_id} is on the hosts {' and '.join(found)}. Move the older one away."
            )
        if found:
            homes[node_id] = last if last in found else found[0]
        elif last and (file.directories or last in there):
            homes[node_id] = last
    hosts = [
        CoordinatorHost(
            address=report.address,
            rack=report.rack,
            node_ids=frozenset(one for one, home in homes.items() if home == report.address),
        )
        for report in reports
    ]
    placed = host_placement(file.partitions, hosts, file.replicas)
    return tuple(homes.get(node_id, host) for node_id, host in enumerate(placed))


def with_replica_nodes(
    file: ClusterFile, homes: Sequence[str], reports: Sequence[HostReport]
) -> ClusterFile:
    """Return the file with the replicas of each partition on different hosts, as far as possible.

    Only before the cluster is formed: then it stays as it was.
    """
    if file.directories or file.replica_nodes:
        return file
    racks = {report.address: report.rack for report in reports}
    replicas = min(file.replicas, file.partitions)
    return replace(file, replica_nodes=replica_placement(homes, racks, replicas))


def plan_cluster(
    request: PlanRequest, file: ClusterFile, homes: Sequence[str], choose: PortChooser
) -> ClusterPlan:
    """Return the plan for coordinators on these hosts (by node id); ``choose`` chooses ports."""
    with _in_sentences():
        check_cluster(request.configs, [host or LOCAL_HOST for host in homes])
    index = positions(homes)
    places: dict[int, CoordinatorPlace] = {}
    console = Address(host="", port=request.configs.integer(CONSOLE_PORT))
    for host in sorted(set(homes)):
        node_ids = [node_id for node_id, home in enumerate(homes) if home == host]
        wanted = [_place(request, node_id, host, index[node_id]) for node_id in node_ids]
        before = [file.ports[node_id] for node_id in node_ids] if file.ports else []
        addresses = [place.listener for place in wanted]
        if not host:  # the console listens on the same host
            addresses.append(replace(console, host=wanted[0].peer.host))
            before += file.ports[-1:]
        fixed = [place.peer for place in wanted if place.peer.port]
        chosen = choose(host, [*addresses, *fixed], [*before, *(address.port for address in fixed)])
        places |= zip(node_ids, map(_with_port, wanted, chosen), strict=True)
        if not host:
            console = replace(addresses[-1], port=chosen[len(wanted)])
        elif not console.port:  # the controller may be on any host
            last = file.ports[-1] if file.ports else 0
            port = last or choose(host, [Address(host=host, port=0)], ())[0]
            console = replace(console, port=port)
    ordered = tuple(places[node_id] for node_id in range(file.partitions))
    file = replace(
        file,
        ports=(*(place.listener.port for place in ordered), console.port),
        hosts=tuple(homes) if any(homes) else (),
        revision=file.revision + 1,
    )
    return ClusterPlan(_spec(request, file, ordered, console), file)


def plan_place(
    request: PlanRequest, spec: ClusterSpec, node_id: int, host: str, choose: PortChooser
) -> CoordinatorPlace:
    """Return the place of one coordinator that moves to a host, beside those that are there."""
    there = [
        place
        for other, place in enumerate(spec.places)
        if place.ray_host == host and other != node_id
    ]
    taken = {address.port for one in there for address in (one.listener, one.peer)} - {0}
    for index in range(len(there) + 1):
        with _in_sentences():
            wanted = _place(request, node_id, host, index)
        if not {wanted.listener.port, wanted.peer.port} & taken:
            break
    fixed = [wanted.peer] if wanted.peer.port else []
    before = [spec.places[node_id].listener.port, *(address.port for address in fixed)]
    return _with_port(wanted, choose(host, [wanted.listener, *fixed], before)[0])


@contextlib.contextmanager
def _in_sentences() -> Iterator[None]:
    """Raise the errors of configs as those of the operator."""
    try:
        yield
    except ConfigError as error:
        raise BadInputError(f"{error}.") from None


def _place(request: PlanRequest, node_id: int, host: str, index: int) -> CoordinatorPlace:
    """Return the addresses of the ``index``-th coordinator on a host; port 0 is any free one."""
    configs = request.configs
    (found,) = listener_addresses(configs, node_id, host or LOCAL_HOST, index)
    is_everywhere = found.bind_host in WILDCARDS
    peer_host = host or (LOCAL_HOST if is_everywhere else found.bind_host)
    return CoordinatorPlace(
        ray_host=host,
        listener=Address(host=found.bind_host, port=found.bind_port),
        advertised=Address(host=found.advertised_host, port=found.advertised_port or 0),
        peer=Address(host=peer_host, port=replica_port(configs, node_id, index)),
    )


def _with_port(place: CoordinatorPlace, port: int) -> CoordinatorPlace:
    advertised = place.advertised
    return replace(
        place,
        listener=replace(place.listener, port=port),
        advertised=advertised if advertised.port else replace(advertised, port=port),
    )


def _spec(
    request: PlanRequest, file: ClusterFile, places: tuple[CoordinatorPlace, ...], console: Address
) -> ClusterSpec:
    configs = request.configs
    fixed = {PARTITIONS: str(file.partitions), REPLICATION_FACTOR: str(file.replicas)}
    return ClusterSpec(
        cluster_id=file.cluster_id,
        places=places,
        console=console,
        data_dir=str(request.data_dir),
        overrides={**{k: v for k, v in configs.overrides.items() if k != SECRET}, **fixed},
        workers=configs.integer(WORKERS),
        replicas_wanted=file.replicas,
        directories=file.directories,
        replica_nodes=file.replica_nodes,
    )
