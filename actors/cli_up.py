"""``rollcall up`` and ``rollcall down``: from words on a command line to a cluster, and back."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from actors import data_dir, running
from actors.errors import BadInputError, CommandError, FailureError
from actors.spec import REPLICATION_FACTOR, Address, ClusterSpec
from protocol.config import ConfigError, parse_properties, read_server_configs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from actors.controller import Moved
    from actors.ray_node import RayNode
    from actors.running import Running

FAILURE: Final = 1
LOCAL: Final = "local"
SECRET: Final = "cluster.secret"
PARTITIONS: Final = "offsets.topic.num.partitions"
WORKERS: Final = "group.coordinator.background.threads"
WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})
LOOK_S: Final = 1.0
STOP_S: Final = 30.0
STOPPING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What the user typed after ``rollcall up``."""

    config: Path | None
    settings: Sequence[str]
    data_dir: Path
    host: str
    port: int
    address: str
    detach: bool


def up(options: UpOptions) -> int:
    """Start a cluster; in the foreground, stay until it is to be stopped."""
    overrides = _overrides(options)
    if options.detach:
        return _in_background(options, overrides)
    signals = Signals()
    try:
        cluster = _start(options, overrides, signals)
        _stay(cluster)
    except Stopped:
        if signals.cluster is not None:
            stop(signals.cluster)
    return 0


def down(cluster: Running) -> None:
    """Stop a cluster from another process than the one it was started by."""
    from actors import ray_node

    if cluster.owner is not None and ray_node.is_alive(cluster.owner):
        os.kill(cluster.owner[0], signal.SIGTERM)
        if ray_node.wait_gone([cluster.owner], STOP_S):
            return
    stop(cluster)


def drain(cluster: Running, node_id: int, *, end: bool) -> int:
    """Move leaderships away from a coordinator and say where; fail when some stayed."""
    from actors.here import asking

    def question() -> list[Moved]:
        from actors import cluster as actors

        return actors.drain(node_id, end=end)

    moved = asking(cluster, question)
    for row in moved:
        name = "the catalogue" if row.partition < 0 else f"partition {row.partition}"
        where = "stays: no standby can take it" if row.leader is None else f"to node {row.leader}"
        print(f"{name} {where}")
    return FAILURE if any(row.leader is None for row in moved) else 0


def stop(cluster: Running) -> None:
    """Stop a cluster; the Ray that was started for it goes with it."""
    from actors import ray_node

    cluster.prepare_to_connect()
    from actors.cluster import connected
    from actors.starting import destroy

    try:
        with connected(cluster.address):
            destroy(cluster.partitions, cluster.workers)
    except CommandError:
        if cluster.node is None:
            raise
    finally:
        if cluster.node is not None:
            ray_node.stop(cluster.node)
        running.forget(cluster)


# --- what is to be started


def _overrides(options: UpOptions) -> Mapping[str, str]:
    """Read the configs of the file and the command line; the command line wins."""
    properties: dict[str, str] = {}
    if options.config is not None:
        try:
            properties |= parse_properties(options.config.read_text())
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise BadInputError(
                f"The config file {options.config} can not be read: {why}."
            ) from None
        except ConfigError as error:
            raise BadInputError(f"{options.config}: {error}") from None
    for setting in options.settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise BadInputError(f"--set wants KEY=VALUE and not {setting!r}.")
        properties[name.strip()] = value.strip()
    try:
        found = read_server_configs(properties)
    except ConfigError as error:
        raise BadInputError(str(error)) from None
    if found.unused:
        print(f"No meaning here: {', '.join(sorted(found.unused))}", file=sys.stderr)
    return dict(found.configs.overrides)


def _plan(
    options: UpOptions, overrides: Mapping[str, str]
) -> tuple[ClusterSpec, data_dir.ClusterFile]:
    """Settle everything that can be settled before a process is started."""
    from protocol.config import Configs

    if options.host in WILDCARDS:
        raise BadInputError(
            f"--host {options.host} is no address that a client can connect to: name one."
        )
    configs = Configs(overrides)
    directory = options.data_dir.absolute()
    before = data_dir.open_data_dir(directory)
    data_dir.check_unlocked(directory)
    partitions, replicas = configs.integer(PARTITIONS), configs.integer(REPLICATION_FACTOR)
    if before is not None:
        for name, wanted, fixed in (
            (PARTITIONS, partitions, before.partitions),
            (REPLICATION_FACTOR, replicas, before.replicas),
        ):
            if name in overrides and wanted != fixed:
                raise BadInputError(
                    f"{directory} was begun with {name}={fixed}, "
                    f"which is fixed at the first start: it can not become {wanted}."
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
    return _spec(options, overrides, cluster), cluster


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


# --- starting it


def _start(options: UpOptions, overrides: Mapping[str, str], signals: Signals) -> Running:
    """Start everything and say READY; on any trouble leave nothing behind."""
    spec, file = _plan(options, overrides)
    from actors import ray_node

    with contextlib.ExitStack() as undo:
        node = ray_node.start() if options.address == LOCAL else None
        if node is not None:
            undo.callback(ray_node.stop, node)
        from actors.cluster import connected
        from actors.starting import create, on_every_node

        wanted = node.address if node is not None else options.address
        with connected(wanted) as address:
            signals.take()  # from Ray, which has its own idea of them
            spec = on_every_node(spec)
            undo_actors = create(spec, _environment(node), _Operator(spec.data_dir, file))
            try:
                cluster = running.Running(
                    cluster_id=spec.cluster_id,
                    data_dir=spec.data_dir,
                    address=address,
                    bootstrap=spec.bootstrap,
                    partitions=spec.partitions,
                    workers=spec.workers,
                    node=node,
                    owner=None if options.detach else ray_node.identified(os.getpid()),
                    auth_mode=os.environ.get("RAY_AUTH_MODE", ""),
                )
                running.save(cluster)
            except BaseException:
                undo_actors()
                raise
        signals.take()
        undo.pop_all()
    signals.cluster = cluster
    ready = f"READY bootstrap={spec.bootstrap} console=http://{spec.console}"
    print(f"{ready} data={spec.data_dir}", flush=True)
    return cluster


@dataclass(frozen=True, slots=True)
class _Operator:
    """Writes down what the cluster is formed of, and says what is not as it should be."""

    directory: str
    file: data_dir.ClusterFile

    def formed(self, directories: tuple[str, ...]) -> None:
        """Write the directories into the cluster file."""
        data_dir.save(Path(self.directory), replace(self.file, directories=directories))

    def say(self, sentence: str) -> None:
        """Say it on standard error: standard output is for READY."""
        print(f"rollcall: {sentence}", file=sys.stderr, flush=True)


def _environment(node: RayNode | None) -> dict[str, str]:
    """Return what OpenTelemetry is told here; a Ray of our own has it from us anyway."""
    if node is not None:
        return {}
    return {name: text for name, text in os.environ.items() if name.startswith("OTEL_")}


def _stay(cluster: Running) -> None:
    """Wait until a signal says to stop; notice when the cluster is gone without one."""
    while True:
        time.sleep(LOOK_S)
        if not cluster.is_alive:
            running.forget(cluster)
            raise FailureError("The cluster's Ray has died: start the cluster again.")


class Stopped(BaseException):
    """A signal asked us to stop."""


class Signals:
    """Turns the first signal to stop into :class:`Stopped`; the next ones change nothing.

    ``cluster`` is what there is to stop.
    """

    def __init__(self) -> None:
        self.cluster: Running | None = None
        self._stopped = False
        self.take()

    def take(self) -> None:
        """Handle the signals from now on."""
        for number in STOPPING_SIGNALS:
            signal.signal(number, self._stop)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if not self._stopped:
            self._stopped = True
            raise Stopped


def _in_background(options: UpOptions, overrides: Mapping[str, str]) -> int:
    """Start everything from a child process that belongs to no terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _start_and_exit(options, overrides)
    try:
        Signals()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except Stopped:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        return FAILURE


def _start_and_exit(options: UpOptions, overrides: Mapping[str, str]) -> NoReturn:
    code = FAILURE
    try:
        os.setsid()
        _start(options, overrides, Signals())
        code = 0
    except CommandError as error:
        print(f"rollcall: {error}", file=sys.stderr, flush=True)
        code = error.exit_code
    except Stopped:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
