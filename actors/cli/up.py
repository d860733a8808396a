"""``rollcall up``, ``down`` and ``drain``: start a cluster, stop it, drain a coordinator."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.cli.discovery import PARENT_VARIABLE, call_cluster, find_cluster
from actors.cli.output.documents import tell
from actors.cli.output.progress import WorkProgress
from actors.cluster import data_dir, processes, ray_node, registry
from actors.cluster.listening_ports import choose_ports
from actors.deployment import supervisor
from actors.deployment.planning import PlanRequest, cluster_file, plan_cluster
from actors.errors import BadInputError, ExitCode, FailureError
from actors.peers.tls import TlsError, check_certificates, tls_settings
from actors.telemetry.observer import traces_go
from actors.telemetry.transports import FILE
from failover.partition_kinds import title_of
from protocol.config import ConfigError, read_server_configs
from protocol.properties import parse_properties

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence

    from actors.cluster.ray_node import RayNode
    from actors.cluster.registry import RegisteredCluster
    from actors.cluster.spec import ClusterSpec
    from actors.deployment.controller import MovedLeadership
    from actors.deployment.planning import ClusterPlan

FAILURE: Final = ExitCode.FAILURE
LOCAL: Final = "local"
NO_TOKEN: Final = (
    "This Ray asks for no token: whoever reaches its ports can run programs on its hosts. "
    "Start it with RAY_AUTH_MODE=token."
)
STABLE_S: Final = 10.0
"""A cluster whose Ray dies sooner after READY is not started again."""

STOP_S: Final = 40.0
"""Longer than a cluster ever takes to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The options of ``rollcall up``; a new cluster waits for that many ``hosts``."""

    config: Path | None
    settings: Sequence[str]
    data_dir: Path
    host: str | None
    port: int | None
    address: str
    detach: bool
    accepts_copies: bool = False
    hosts: int = 1
    as_json: bool = False


def up(options: UpOptions) -> int:
    """Start a cluster; in the foreground, run until a signal stops it."""
    signals = supervisor.Signals()
    if parent := os.environ.pop(PARENT_VARIABLE, ""):
        processes.die_with_parent(signal.SIGTERM, int(parent))
    request = PlanRequest(
        data_dir=options.data_dir.absolute(),
        overrides=_overrides(options),
        host=options.host,
        port=options.port,
    )
    before = data_dir.open_data_dir(request.data_dir)
    if options.hosts > 1 and options.address == LOCAL:
        raise BadInputError("--hosts needs --address: a cluster on its own Ray has one host.")
    if before is not None and before.directories:
        options = replace(options, hosts=1)  # it can start as soon as majorities are there
    _clear_directory(request.data_dir)
    plan = _plan_here(options, request, before) if options.address == LOCAL else None
    begun = registry.RegisteredCluster(
        data_dir=str(request.data_dir),
        address="",
        node=None if plan is None else ray_node.new(),
        owner=processes.identified(os.getpid()),
        auth_mode=os.environ.get("RAY_AUTH_MODE", ""),
        is_ready=False,
    )
    begun = begun if plan is None else _registered(begun, plan.spec)
    cluster = _begin(signals, options, request, plan, begun)
    if cluster is None:
        return FAILURE if options.detach else 0
    try:
        print(_ready(cluster, as_json=options.as_json), flush=True)
    except OSError:
        supervisor.stop(cluster)
        raise
    if options.detach:
        return 0
    ready_s = time.monotonic()
    while not supervisor.stay(signals, cluster):
        if time.monotonic() - ready_s < STABLE_S:
            raise FailureError("The cluster's Ray has died. Start the cluster again.")
        supervisor.say("The cluster's Ray has died. Starting the cluster again.")
        begun = replace(begun, node=ray_node.new())
        again = _begin(signals, options, request, plan, begun)
        if again is None:
            return 0
        cluster, ready_s = again, time.monotonic()
    return 0


def _ready(cluster: RegisteredCluster, *, as_json: bool) -> str:
    """Return the line that says where the cluster is."""
    where = {
        "bootstrap": cluster.bootstrap,
        "console": cluster.console,
        "data": cluster.data_dir,
    }
    if as_json:
        return json.dumps({"ready": True, "cluster_id": cluster.cluster_id, **where})
    return f"READY {' '.join(f'{name}={value}' for name, value in where.items())}"


def _begin(
    signals: supervisor.Signals,
    options: UpOptions,
    request: PlanRequest,
    plan: ClusterPlan | None,
    begun: RegisteredCluster,
) -> RegisteredCluster | None:
    """Start the cluster; return None if a signal came first."""
    return supervisor.begin(signals, begun, partial(_start, options, request, plan))


def down(args: Namespace) -> int:
    """Stop a cluster; return 0 when all its processes have ended.

    First removes what killed clusters left; if the selected cluster is one of these, that is
    success. Raises CommandError if there is no cluster, or if some of it could not be stopped.
    """
    removed = registry.remove_leftovers() if args.address is None else []
    meant = [one for one in removed if args.data_dir in (None, Path(one.data_dir))]
    remains = [one.data_dir for one in meant]
    try:
        cluster = find_cluster(args.data_dir, args.address, is_ready=False)
    except FailureError:
        if not meant:
            raise
        for one in meant:
            supervisor.say(
                f"The cluster of {one.data_dir} had been killed. Its remains are removed."
            )
        _told_stopped(args, None, remains)
        return 0
    with WorkProgress(f"stopping the cluster of {cluster.data_dir}", is_quiet=args.json):
        _stop(cluster)
    _told_stopped(args, cluster, remains)
    return 0


def _told_stopped(
    args: Namespace, stopped: RegisteredCluster | None, remains: Sequence[str]
) -> None:
    """Say what was stopped, with ``--json``; otherwise the exit code says it."""
    if args.json:
        what = (
            None
            if stopped is None
            else {"cluster_id": stopped.cluster_id, "data_dir": stopped.data_dir}
        )
        print(json.dumps({"stopped": what, "removed_remains": list(remains)}))


def _stop(cluster: RegisteredCluster) -> None:
    """Let its foreground ``rollcall up`` stop it, if there is one; then stop what is left."""
    if cluster.owner is not None:
        processes.send(cluster.owner, signal.SIGTERM)
        if not processes.wait_gone([cluster.owner], STOP_S):
            processes.send(cluster.owner, signal.SIGKILL)
        left = registry.load(cluster.data_dir)
        if left is None:
            return
        cluster = left
    supervisor.stop(cluster)


def drain(cluster: RegisteredCluster, args: Namespace) -> int:
    """Move leaderships away from a coordinator or host, print where to; fail if some stay."""

    def question() -> list[MovedLeadership]:
        from actors.deployment import actors

        return actors.drain(args.which, end=args.end)

    what = f"ending the drain of {args.which}" if args.end else f"draining {args.which}"
    with WorkProgress(what, is_quiet=args.json):
        moved = call_cluster(cluster, question)
    rows = [{"partition": title_of(row.partition), "to_node": row.leader} for row in moved]
    if args.json:
        print(json.dumps({"which": args.which, "is_ended": args.end, "moved": rows}))
    for row in rows if not args.json else ():
        to = row["to_node"]
        where = "stays: no standby can take over" if to is None else f"to node {to}"
        print(f"{row['partition']} {where}")
    return FAILURE if any(row.leader is None for row in moved) else 0


def replace_coordinator(cluster: RegisteredCluster, args: Namespace) -> int:
    """Start a coordinator, empty, on another host, and print which."""

    def question() -> str:
        from actors.deployment import actors

        return actors.replace_coordinator(args.node_id, args.to)

    with WorkProgress(f"moving coordinator {args.node_id}", is_quiet=args.json):
        host = call_cluster(cluster, question)
    document = {"node_id": args.node_id, "host": host}
    tell(args, f"coordinator {args.node_id} starts on {host}", document)
    return 0


# --- what is asked for


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
        tls_settings(found.configs)
    except ConfigError as error:
        raise BadInputError(str(error)) from None
    if found.unused:
        supervisor.say(f"Ignored configs: {', '.join(sorted(found.unused))}.")
    return dict(found.configs.overrides)


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
    supervisor.say(
        f"The `rollcall up` of the cluster of {directory} was killed. "
        "Stopping the processes that it left."
    )
    supervisor.stop(found)


# --- starting


def _plan_here(
    options: UpOptions, request: PlanRequest, before: data_dir.ClusterFile | None
) -> ClusterPlan:
    """Decide everything for a cluster on its own Ray, before a process is started."""
    data_dir.check_unlocked(request.data_dir)
    file = cluster_file(request, before)
    plan = plan_cluster(
        request, file, [""] * file.partitions, lambda _, *ports: choose_ports(*ports)
    )
    if (tls := tls_settings(request.configs)) is not None:
        try:
            check_certificates(tls, plan.spec.places[0].peer.host)
        except TlsError as error:
            raise BadInputError(f"{error}.") from None
    data_dir.save(request.data_dir, plan.file)
    if options.accepts_copies:
        data_dir.accept_copies(request.data_dir, file.partitions)
    return plan


def _start(
    options: UpOptions, request: PlanRequest, plan: ClusterPlan | None, begun: RegisteredCluster
) -> None:
    """Start everything and record that the cluster is READY; call it in a child process.

    Without a plan, the cluster is planned with the hosts of the Ray cluster.
    """
    node = ray_node.start(begun.node) if begun.node is not None else None
    from actors.deployment.actors import connected
    from actors.deployment.hosts import Hosts, await_hosts, plan_on_hosts
    from actors.deployment.starting import create, refuse_second_cluster, scale_workers

    with (
        connected(node.address if node is not None else options.address) as address,
        contextlib.ExitStack() as stack,
    ):
        refuse_second_cluster()
        if plan is None:
            data_dir.check_unlocked(request.data_dir)
            if os.environ.get("RAY_AUTH_MODE") != "token":
                supervisor.say(NO_TOKEN)
            await_hosts(options.hosts)
            hosts = stack.enter_context(contextlib.closing(Hosts(str(request.data_dir))))
            plan = plan_on_hosts(request, hosts)
            hosts.save(plan.file)
            if options.accepts_copies:
                hosts.accept_copies(plan.spec.partitions)
            save = hosts.save
        else:
            save = partial(data_dir.save, request.data_dir)
        spec = replace(scale_workers(plan.spec), environment=_environment(node))
        cluster = replace(_registered(begun, spec), address=address, node=node)
        registry.save(cluster)
        console = create(spec, _Operator(plan.file, save))
        _say_where_traces_go(node, spec)
        owner = None if options.detach else begun.owner
        registry.save(replace(cluster, owner=owner, console=console, is_ready=True))


def _registered(begun: RegisteredCluster, spec: ClusterSpec) -> RegisteredCluster:
    """Return the cluster's file in the registry, with what its plan says."""
    return replace(
        begun,
        cluster_id=spec.cluster_id,
        bootstrap=spec.bootstrap,
        partitions=spec.partitions,
        workers=spec.workers,
    )


@dataclass(frozen=True, slots=True)
class _Operator:
    """Records the cluster's directories by ``save``, and prints problems."""

    file: data_dir.ClusterFile
    save: Callable[[data_dir.ClusterFile], None]

    def formed(self, directories: tuple[str, ...]) -> None:
        """Write the directories into the cluster file."""
        self.save(replace(self.file, directories=directories, revision=self.file.revision + 1))

    def say(self, sentence: str) -> None:
        """Print it to standard error: standard output is for READY."""
        supervisor.say(sentence)


def _environment(node: RayNode | None) -> dict[str, str]:
    """Return this process's variables of traces and metrics; our own Ray inherits them."""
    if node is not None:
        return {}
    return telemetry_variables(os.environ)


def telemetry_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say where traces and metrics go."""
    return {
        name: text for name, text in environ.items() if name.startswith("OTEL_") or name == FILE
    }


def _say_where_traces_go(node: RayNode | None, spec: ClusterSpec) -> None:
    """Say where traces go; a Ray that was there before may have variables of its own."""
    where = traces_go(os.environ, spec.traces_path("any"))
    if node is None and not telemetry_variables(os.environ):
        supervisor.say(f"Traces go where the variables of `ray start` say, otherwise {where}.")
    else:
        supervisor.say(f"Traces go {where}.")
