"""Runs one drill on hosts: it makes the hosts, starts Ray and a cluster, and is a client itself."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.errors import BadInputError
from bench.client.cluster_client import ClusterClient, addresses_in
from bench.host_drills.stage import HostStage
from bench.host_drills.table import HOST_COUNTS, HOST_DRILLS
from bench.hosts.clusters import HostCluster
from bench.hosts.hosts import NamespaceHosts
from bench.hosts.namespaces import what_is_missing
from bench.hosts.ray_hosts import RayOnHosts
from bench.load.rehearsal import Rehearsal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.host_drills.table import HostDrill
    from bench.hosts.host import NamespaceHost
    from failover.drills.verdict import Verdict

CONFIGS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
"""Members of consumer groups heartbeat as often as those of classic ones."""


def checked(name: str, hosts: int | None) -> HostDrill:
    """Return a drill that can run on so many hosts; raises BadInputError."""
    drill = HOST_DRILLS[name]
    fit = [count for count in HOST_COUNTS if count >= drill.hosts_min]
    if hosts not in fit:
        raise BadInputError(f"Drill {name} needs --hosts {_either(fit)}.")
    if missing := what_is_missing():
        raise BadInputError(missing)
    return drill


def run(
    drill: HostDrill, count: int, members: int | None = None, directory: Path | None = None
) -> Verdict:
    """Run a drill on ``count`` hosts; ``directory`` keeps what their programs write."""
    with ExitStack() as stack:
        if directory is None:
            directory = Path(tempfile.mkdtemp(prefix="rollcall-drill-"))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        network = stack.enter_context(NamespaceHosts(count + drill.spares + 1, directory))
        *others, client = network
        hosts, spares = others[:count], others[count:]
        print(f"starting Ray on {count} hosts, and a cluster ...", flush=True)
        cluster = _started(drill, hosts)
        stack.enter_context(client.namespaces.entered_network())
        clients = ClusterClient(addresses_in(cluster.bootstrap))
        rehearsal = Rehearsal(drill.drill(members), clients)
        stage = HostStage(network, cluster, hosts, spares, rehearsal)
        stage.find_homes()
        return rehearsal.play(lambda _crowd: drill.carry_out(stage))


def _started(drill: HostDrill, hosts: list[NamespaceHost]) -> HostCluster:
    ray = RayOnHosts(hosts[0], drill.ray_settings)
    ray.start(hosts)
    configs = {**CONFIGS, "offsets.topic.num.partitions": str(len(hosts)), **drill.configs}
    return HostCluster(ray, tuple(f"{name}={value}" for name, value in configs.items())).up()


def _either(counts: Sequence[int]) -> str:
    return " or ".join(map(str, counts))
