"""Runs one drill on hosts: it makes the hosts, starts Ray and a cluster, and is a client itself."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.errors import BadInputError
from bench.client.cluster_client import ClusterClient, addresses_in
from bench.host_drills.programs import two_programs
from bench.host_drills.spark_rehearsal import SparkRehearsal, over_spark
from bench.host_drills.stage import HostStage
from bench.host_drills.table import HOST_COUNTS, HOST_DRILLS
from bench.hosts.clusters import HostCluster, compile_assignors
from bench.hosts.hosts import NamespaceHosts
from bench.hosts.namespaces import what_is_missing
from bench.hosts.ray_hosts import RayOnHosts
from bench.hosts.spark_hosts import SparkOnHosts
from bench.load.rehearsal import Rehearsal, RehearsalLog
from bench.servers.java import java_command
from bench.servers.server import StartError
from failover.drills.drill import MODERN_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.host_drills.programs import Program
    from bench.host_drills.table import HostDrill
    from bench.hosts.host import NamespaceHost
    from failover.drills.drill import Drill, Workload
    from failover.drills.verdict import Verdict

PROGRAMS: Final = "programs"
"""The directory of the versions that hosts run, in that of the drill."""

SPARK_HOSTS_MAX: Final = 8
MEMBERS_PER_SPARK_HOST_MIN: Final = 20

SESSION_MS_MIN: Final = 45_000
"""Kafka's default session timeout for the members of all groups but classic ones."""


def _of_modern_groups(name: str, limit: str, value: str) -> dict[str, str]:
    """Return a config of all groups but classic ones with its limit (``min`` or ``max``)."""
    names = (name, f"{limit}.{name}")
    return {f"group.{each}.{own}": value for each in MODERN_TYPES for own in names}


CONFIGS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "1000",
    **_of_modern_groups("heartbeat.interval.ms", "min", "1000"),
    "group.coordinator.background.threads": "1",
}
"""Members of the other groups heartbeat as often as those of classic ones.

One assignor worker on each host is enough: all hosts share this machine's processors.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """How a drill is run: on ``hosts`` hosts, with so many members (None: as the drill says).

    ``types`` are those of its groups, spread evenly (None: as the drill says). ``spark_hosts``
    further hosts have the members, driven by Spark (0: they are in this process). ``directory``
    keeps what the hosts' programs write. ``older`` is the wheel that a drill with two versions
    begins with.
    """

    hosts: int | None
    members: int | None = None
    types: Sequence[str] | None = None
    spark_hosts: int = 0
    directory: Path | None = None
    older: Path | None = None


def checked(name: str, options: HostOptions) -> HostDrill:
    """Return a drill that can run as asked; raises BadInputError."""
    drill, hosts, older = HOST_DRILLS[name], options.hosts, options.older
    if older is not None and not drill.has_two_versions:
        raise BadInputError(f"Drill {name} runs one version: omit --from.")
    fit = [count for count in HOST_COUNTS if count >= drill.hosts_min]
    if hosts not in fit:
        raise BadInputError(f"Drill {name} needs --hosts {_either(fit)}.")
    if options.spark_hosts:
        _check_spark(options)
    if missing := what_is_missing():
        raise BadInputError(missing)
    return drill


def _check_spark(options: HostOptions) -> None:
    """Check that there can be a Spark; raises BadInputError."""
    spark_hosts, members = options.spark_hosts, options.members
    if options.types is not None:
        raise BadInputError(
            "--spark-hosts drives members of classic and consumer groups: omit --types."
        )
    if spark_hosts > SPARK_HOSTS_MAX:
        raise BadInputError(f"--spark-hosts is {SPARK_HOSTS_MAX} at most.")
    if members is not None and members < MEMBERS_PER_SPARK_HOST_MIN * spark_hosts:
        least = MEMBERS_PER_SPARK_HOST_MIN * spark_hosts
        raise BadInputError(f"--spark-hosts {spark_hosts} needs --members {least} or more.")
    if find_spec("pyspark") is None:
        raise BadInputError("--spark-hosts needs PySpark: install rollcall[load].")
    try:
        java_command()
    except StartError as error:
        raise BadInputError(f"--spark-hosts needs Java. {error}") from error


def run(drill: HostDrill, options: HostOptions, log: RehearsalLog | None = None) -> Verdict:
    """Run a drill on hosts; ``log`` gets what its report needs."""
    with ExitStack() as stack:
        directory = options.directory
        if directory is None:
            directory = Path(tempfile.mkdtemp(prefix="rollcall-drill-"))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        programs = directory / PROGRAMS
        versions: tuple[Program, ...] = ()
        if drill.has_two_versions:
            versions = two_programs(programs, options.older)
        shared = [programs] if versions else []
        count = options.hosts or HOST_COUNTS[0]
        size = count + drill.spares + options.spark_hosts + 1
        network = NamespaceHosts(size, directory, shared=shared)
        *others, client = stack.enter_context(network)
        others, further = others[: count + drill.spares], others[count + drill.spares :]
        hosts, spares = others[:count], others[count:]
        for host in others if versions else ():
            host.imports_from = versions[0].path
        if drill.ray_settings.get("NUMBA_DISABLE_JIT") is None:
            compile_assignors()
        judged = _judged(drill, options)
        print(f"starting Ray on {count} hosts, and a cluster ...", flush=True)
        cluster = _started(drill, judged.workload, hosts)
        stack.enter_context(client.namespaces.entered_network())
        clients = ClusterClient(addresses_in(cluster.bootstrap))
        rehearsal, play = _members(
            judged, clients, SparkOnHosts(client, further), log or RehearsalLog()
        )
        stage = HostStage(network, cluster, hosts, spares, rehearsal)
        if versions:
            stage.have_versions(versions)
        stage.find_homes()
        return play(lambda: drill.carry_out(stage))


def _judged(drill: HostDrill, options: HostOptions) -> Drill:
    """Return a drill with its members, as it is judged."""
    if options.spark_hosts:
        return over_spark(drill.drill(), options.members)
    return drill.drill(options.members, options.types)


def _members(
    drill: Drill, clients: ClusterClient, spark: SparkOnHosts, log: RehearsalLog
) -> tuple[Rehearsal, Callable[[Callable[[], None]], Verdict]]:
    """Return the members of a drill, and what lets them live through it."""
    if not spark.workers:
        here = Rehearsal(drill, clients, log)
        return here, lambda carry_out: here.play(lambda _crowd: carry_out())
    spark.start()
    there = SparkRehearsal(drill, clients, spark, log)
    return there, there.ride


def _started(drill: HostDrill, workload: Workload, hosts: list[NamespaceHost]) -> HostCluster:
    ray = RayOnHosts(hosts[0], drill.ray_settings)
    ray.start(hosts)
    configs = {
        **CONFIGS,
        **patient_with(workload),
        "offsets.topic.num.partitions": str(len(hosts)),
        **drill.configs,
    }
    return HostCluster(ray, tuple(f"{name}={value}" for name, value in configs.items())).up()


def patient_with(workload: Workload) -> dict[str, str]:
    """Return configs with which members of the other groups may be as slow as classic ones are."""
    session_ms = max(SESSION_MS_MIN, workload.session_timeout_ms)
    return _of_modern_groups("session.timeout.ms", "max", str(session_ms))


def _either(counts: Sequence[int]) -> str:
    return " or ".join(map(str, counts))
