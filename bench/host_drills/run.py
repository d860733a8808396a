"""Runs one drill on hosts: it makes the hosts, starts Ray and a cluster, and is a client itself."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.errors import BadInputError
from bench.client.cluster_client import ClusterClient, addresses_in
from bench.host_drills.programs import two_programs
from bench.host_drills.stage import HostStage
from bench.host_drills.table import HOST_COUNTS, HOST_DRILLS
from bench.hosts.clusters import HostCluster
from bench.hosts.hosts import NamespaceHosts
from bench.hosts.namespaces import what_is_missing
from bench.hosts.ray_hosts import RayOnHosts
from bench.load.rehearsal import Rehearsal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.host_drills.programs import Program
    from bench.host_drills.table import HostDrill
    from bench.hosts.host import NamespaceHost
    from failover.drills.verdict import Verdict

PROGRAMS: Final = "programs"
"""The directory of the versions that hosts run, in that of the drill."""

CONFIGS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.coordinator.background.threads": "1",
}
"""Members of consumer groups heartbeat as often as those of classic ones.

One assignor worker on each host is enough: all hosts share this machine's processors.
"""


def checked(name: str, hosts: int | None, older: Path | None = None) -> HostDrill:
    """Return a drill that can run on so many hosts; raises BadInputError.

    ``older`` is the wheel of an older version, for drills with two.
    """
    drill = HOST_DRILLS[name]
    if older is not None and not drill.has_two_versions:
        raise BadInputError(f"Drill {name} runs one version: omit --from.")
    fit = [count for count in HOST_COUNTS if count >= drill.hosts_min]
    if hosts not in fit:
        raise BadInputError(f"Drill {name} needs --hosts {_either(fit)}.")
    if missing := what_is_missing():
        raise BadInputError(missing)
    return drill


def run(
    drill: HostDrill, count: int, members: int | None = None, directory: Path | None = None,
    older: Path | None = None,
) -> Verdict:  # fmt: skip
    """Run a drill on ``count`` hosts; ``directory`` keeps what their programs write.

    ``older`` is the wheel that a drill with two versions begins with.
    """
    with ExitStack() as stack:
        if directory is None:
            directory = Path(tempfile.mkdtemp(prefix="rollcall-drill-"))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        programs = directory / PROGRAMS
        versions: tuple[Program, ...] = ()
        if drill.has_two_versions:
            versions = two_programs(programs, older)
        shared = [programs] if versions else []
        network = NamespaceHosts(count + drill.spares + 1, directory, shared=shared)
        *others, client = stack.enter_context(network)
        hosts, spares = others[:count], others[count:]
        for host in others if versions else ():
            host.imports_from = versions[0].path
        print(f"starting Ray on {count} hosts, and a cluster ...", flush=True)
        cluster = _started(drill, hosts)
        stack.enter_context(client.namespaces.entered_network())
        clients = ClusterClient(addresses_in(cluster.bootstrap))
        rehearsal = Rehearsal(drill.drill(members), clients)
        stage = HostStage(network, cluster, hosts, spares, rehearsal)
        if versions:
            stage.have_versions(versions)
        stage.find_homes()
        return rehearsal.play(lambda _crowd: drill.carry_out(stage))


def _started(drill: HostDrill, hosts: list[NamespaceHost]) -> HostCluster:
    ray = RayOnHosts(hosts[0], drill.ray_settings)
    ray.start(hosts)
    configs = {**CONFIGS, "offsets.topic.num.partitions": str(len(hosts)), **drill.configs}
    return HostCluster(ray, tuple(f"{name}={value}" for name, value in configs.items())).up()


def _either(counts: Sequence[int]) -> str:
    return " or ".join(map(str, counts))
