"""``rollcall up``, ``down`` and ``drain``: start a cluster, stop it, drain a coordinator."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.cli.discovery import PARENT_VARIABLE, call_cluster, find_cluster
from actors.cluster import data_dir, processes, ray_node, registry
from actors.cluster.spec import REPLICATION_FACTOR, Address, ClusterSpec
from actors.deployment import supervisor
from actors.errors import BadInputError, FailureError
from failover.partition_kinds import title_of
from protocol.config import ConfigError, read_server_configs
from protocol.properties import parse_properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.cluster.ray_node import RayNode
    from actors.cluster.registry import RegisteredCluster
    from actors.deployment.controller import MovedLeadership

FAILURE: Final = 1
LOCAL: Final = "local"
SECRET: Final = "cluster.secret"
PARTITIONS: Final = "offsets.topic.num.partitions"
WORKERS: Final = "group.coordinator.background.threads"
WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})
STOP_S: Final = 40.0
"""Longer than a cluster ever takes to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The options of ``rollcall up``."""

    config: Path | None
    settings: Sequence[str]
    data_dir: Path
    host: str
    port: int
    address: str
    detach: bool
    accepts_copies: bool = False


def up(options: UpOptions) -> int:
    """Start a cluster; in the foreground, run until a signal stops it."""
    signals = supervisor.Signals()
    if parent := os.environ.pop(PARENT_VARIABLE, ""):
        processes.die_with_parent(signal.SIGTERM, int(parent))
    overrides = _overrides(options)
    spec, file = _plan(options, overrides)
    begun = registry.RegisteredCluster(
        cluster_id=spec.cluster_id,
        data_dir=spec.data_dir,
        address="",
        bootstrap=spec.bootstrap,
        partitions=spec.partitions,
        workers=spec.workers,
        node=ray_node.new() if options.address == LOCAL else None,
        owner=processes.identified(os.getpid()),
        auth_mode=os.environ.get("RAY_AUTH_MODE", ""),
        is_ready=False,
    )
    cluster = supervisor.begin(signals, begun, partial(_start, options, spec, file, begun))
    if cluster is None:
        return FAILURE if options.detach else 0
    try:
        ready = f"READY bootstrap={spec.bootstrap} console=http://{spec.console}"
        print(f"{ready} data={spec.data_dir}", flush=True)
    except OSError:
        supervisor.stop(cluster)
        raise
    if not options.detach:
        supervisor.stay(signals, cluster)
    return 0


def down(data_dir: Path | None, address: str | None) -> int:
    """Stop a cluster; return 0 when all its processes have ended.

    First removes what killed clusters left; if the selected cluster is one of these, that is
    success. Raises CommandError if there is no cluster, or if some of it could not be stopped.
    """
    removed = registry.remove_leftovers() if address is None else []
    meant = [one for one in removed if data_dir in (None, Path(one.data_dir))]
    try:
        cluster = find_cluster(data_dir, address, is_ready=False)
    except FailureError:
        if not meant:
            raise
        for one in meant:
            note = f"The cluster of {one.data_dir} had been killed. Its remains are removed."
            print(f"rollcall: {note}", file=sys.stderr)
        return 0
    _stop(cluster)
    return 0


def _stop(cluster: RegisteredCluster) -> None:
    """Let its foreground ``rollcall up`` stop it, if there is one; then stop what is left."""
    if cluster.owner is not None:
        processes.send(cluster.owner, signal.SIGTERM)
        if not processes.wait_gone([cluster.owner], STOP_S):
            processes.send(cluster.owner, signal.SIGKILL)
        left = registry.load(cluster.cluster_id)
        if left is None:
            return
        cluster = left
    supervisor.stop(cluster)


def drain(cluster: RegisteredCluster, node_id: int, *, end: bool) -> int:
    """Move leaderships away from a coordinator and print where to; fail if some stay."""

    def question() -> list[MovedLeadership]:
        from actors.deployment import actors

        return actors.drain(node_id, end=end)

    moved = call_cluster(cluster, question)
    for row in moved:
        where = "stays: no standby can take over" if row.leader is None else f"to node {row.leader}"
        print(f"{title_of(row.partition)} {where}")
    return FAILURE if any(row.leader is None for row in moved) else 0


# --- planning


def _overrides(options: UpOptions) -> Mapping[str, str]:
    """Read the configs of the file and the command line; the command line takes precedence."""
    properties: dict[str, str] = {}
    if options.config is not None:
        try:
            properties |= parse_properties(options.config.read_text())
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not a text file"
            raise BadInputError(
                f"The config file {options.config} cannot be read: {why}."
            ) from None
        except ConfigError as error:
            raise BadInputError(f"{options.config}: {error}") from None
    for setting in options.settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise BadInputError(f"--set needs KEY=VALUE, not {setting!r}.")
        properties[name.strip()] = value.strip()
    try:
        found = read_server_configs(properties)
    except ConfigError as error:
        raise BadInputError(str(error)) from None
    if found.unused:
        print(f"rollcall: Ignored configs: {', '.join(sorted(found.unused))}.", file=sys.stderr)
    return dict(found.configs.overrides)


def _plan(
    options: UpOptions, overrides: Mapping[str, str]
) -> tuple[ClusterSpec, data_dir.ClusterFile]:
    """Validate and decide everything that is possible before a process is started."""
    from protocol.config import Configs

    if options.host in WILDCARDS:
        raise BadInputError(
            f"--host {options.host} is not an address that clients can use: give another one."
        )
    configs = Configs(overrides)
    directory = options.data_dir.absolute()
    before = data_dir.open_data_dir(directory)
    _clear_directory(directory)
    data_dir.check_unlocked(directory)
    partitions, replicas = configs.integer(PARTITIONS), configs.integer(REPLICATION_FACTOR)
    if before is not None:
        for name, wanted, fixed in (
            (PARTITIONS, partitions, before.partitions),
            (REPLICATION_FACTOR, replicas, before.replicas),
        ):
            if name in overrides and wanted != fixed:
                raise BadInputError(
                    f"{directory} was created with {name}={fixed}, "
                    f"which cannot be changed to {wanted} after the first start."
                )
        partitions, replicas = before.partitions, before.replicas
    ports = data_dir.choose_ports(
        options.host, options.port, partitions, before.ports if before else ()
    )
    given = configs.text(SECRET)
    cluster = data_dir.ClusterFile(
        cluster_id=before.cluster_id if before else data_dir.new_cluster_id(),
        partitions=partitions,
        ports=ports,
        replicas=replicas,
        secret=given or (before.secret if before else data_dir.new_secret()),
        directories=before.directories if before else (),
    )
    data_dir.save(directory, cluster)
    if options.accepts_copies:
        data_dir.accept_copies(directory, partitions)
    return _spec(options, overrides, cluster), cluster


def _clear_directory(directory: Path) -> None:
    """Remove what killed clusters left, and an orphaned cluster on ``directory``."""
    registry.remove_leftovers()
    found = registry.on(directory)
    if found is None:
        return
    if found.owner is not None and found.has_owner and not found.is_ready:
        raise BadInputError(
            f"A cluster is being started on {directory} (process {found.owner[0]}). "
            "Stop it with `rollcall down`, or choose another --data-dir."
        )
    if not found.is_orphan:
        return
    print(
        f"rollcall: The `rollcall up` of the cluster of {directory} was killed. "
        "Stopping the processes that it left.",
        file=sys.stderr,
        flush=True,
    )
    supervisor.stop(found)


def _spec(
    options: UpOptions, overrides: Mapping[str, str], cluster: data_dir.ClusterFile
) -> ClusterSpec:
    from protocol.config import Configs

    fixed = {PARTITIONS: str(cluster.partitions), REPLICATION_FACTOR: str(cluster.replicas)}
    return ClusterSpec(
        cluster_id=cluster.cluster_id,
        listeners=tuple(Address(host=options.host, port=port) for port in cluster.ports[:-1]),
        console=Address(host=options.host, port=cluster.ports[-1]),
        data_dir=str(options.data_dir.absolute()),
        overrides={**{k: v for k, v in overrides.items() if k != SECRET}, **fixed},
        workers=Configs(overrides).integer(WORKERS),
        secret=cluster.secret.encode(),
        replicas_wanted=cluster.replicas,
        directories=cluster.directories,
    )


# --- starting


def _start(
    options: UpOptions, spec: ClusterSpec, file: data_dir.ClusterFile, begun: RegisteredCluster
) -> None:
    """Start everything and record that the cluster is READY; call it in a child process."""
    node = ray_node.start(begun.node) if begun.node is not None else None
    from actors.deployment.actors import connected
    from actors.deployment.starting import create, refuse_second_cluster, scale_workers

    with connected(node.address if node is not None else options.address) as address:
        refuse_second_cluster()
        spec = scale_workers(spec)
        cluster = replace(begun, address=address, workers=spec.workers, node=node)
        registry.save(cluster)
        create(spec, _environment(node), _Operator(spec.data_dir, file))
        owner = None if options.detach else begun.owner
        registry.save(replace(cluster, owner=owner, is_ready=True))


@dataclass(frozen=True, slots=True)
class _Operator:
    """Records the cluster's directories, and prints problems."""

    directory: str
    file: data_dir.ClusterFile

    def formed(self, directories: tuple[str, ...]) -> None:
        """Write the directories into the cluster file."""
        data_dir.save(Path(self.directory), replace(self.file, directories=directories))

    def say(self, sentence: str) -> None:
        """Print it to standard error: standard output is for READY."""
        print(f"rollcall: {sentence}", file=sys.stderr, flush=True)


def _environment(node: RayNode | None) -> dict[str, str]:
    """Return this process's OpenTelemetry variables; our own Ray inherits them."""
    if node is not None:
        return {}
    return {name: text for name, text in os.environ.items() if name.startswith("OTEL_")}
