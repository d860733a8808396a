"""``rollcall up`` and ``rollcall down``: from words on a command line to a cluster, and back."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from actors import data_dir, running
from actors.errors import BadInputError, CommandError, FailureError
from actors.spec import Address, ClusterSpec
from protocol.config import ConfigError, parse_properties, read_server_configs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from actors.running import Running

LOCAL: Final = "local"
PARTITIONS: Final = "offsets.topic.num.partitions"
WORKERS: Final = "group.coordinator.background.threads"
LOOK_S: Final = 1.0
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


class _Stopped(BaseException):
    """A signal asked us to stop."""


def up(options: UpOptions) -> int:
    """Start a cluster; in the foreground, stay until it is to be stopped."""
    overrides = _overrides(options)
    if options.detach:
        return _in_background(options, overrides)
    with _signals_raise():
        try:
            cluster = _bring_up(options, overrides)
        except _Stopped:
            return 0
    return _stay(cluster)


def down(cluster: Running) -> None:
    """Stop a cluster; the Ray that was started for it goes with it."""
    from actors import ray_node

    if cluster.node is not None:
        ray_node.prepare_to_connect(cluster.node.directory)
    from actors import cluster as actors

    try:
        with actors.connected(cluster.address):
            actors.destroy(cluster.partitions, cluster.workers)
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


def _plan(options: UpOptions, overrides: Mapping[str, str]) -> ClusterSpec:
    """Settle everything that can be settled before a process is started."""
    from protocol.config import Configs

    configs = Configs(overrides)
    directory = options.data_dir.absolute()
    before = data_dir.open_data_dir(directory)
    data_dir.check_unlocked(directory)
    partitions = configs.integer(PARTITIONS)
    if before is not None:
        if PARTITIONS in overrides and partitions != before.partitions:
            raise BadInputError(
                f"{directory} was begun with {PARTITIONS}={before.partitions}, "
                f"which is fixed at the first start: it can not become {partitions}."
            )
        partitions = before.partitions
    ports = data_dir.choose_ports(
        options.host, options.port, partitions, before.ports if before else ()
    )
    cluster_id = before.cluster_id if before else data_dir.new_cluster_id()
    data_dir.save(
        directory,
        data_dir.ClusterFile(cluster_id=cluster_id, partitions=partitions, ports=ports),
    )
    return ClusterSpec(
        cluster_id=cluster_id,
        listeners=tuple(Address(host=options.host, port=port) for port in ports[:-1]),
        console=Address(host=options.host, port=ports[-1]),
        data_dir=str(directory),
        overrides={**overrides, PARTITIONS: str(partitions)},
        workers=configs.integer(WORKERS),
    )


# --- starting it


def _bring_up(options: UpOptions, overrides: Mapping[str, str]) -> Running:
    """Start everything, print READY; on any trouble leave nothing behind."""
    spec = _plan(options, overrides)
    from actors import ray_node

    node = ray_node.start() if options.address == LOCAL else None
    from actors import cluster as actors

    address = node.address if node is not None else options.address
    cluster = running.Running(
        cluster_id=spec.cluster_id,
        data_dir=spec.data_dir,
        address=address,
        bootstrap=spec.bootstrap,
        partitions=spec.partitions,
        workers=spec.workers,
        node=node,
        owner=None if options.detach else (os.getpid(), ray_node.started(os.getpid()) or 0),
    )
    try:
        with actors.connected(address):
            try:
                actors.create(spec)
            except BaseException as error:
                if node is None and not isinstance(error, BadInputError):
                    actors.destroy(spec.partitions, spec.workers)
                raise
        running.save(cluster)
        ready = f"READY bootstrap={spec.bootstrap} console=http://{spec.console}"
        print(f"{ready} data={spec.data_dir}", flush=True)
    except BaseException:
        if node is not None:
            ray_node.stop(node)
        running.forget(cluster)
        raise
    return cluster


def _stay(cluster: Running) -> int:
    """Wait for the signal to stop; notice when somebody else stops the cluster."""
    while True:
        got = signal.sigtimedwait(STOPPING_SIGNALS, LOOK_S)
        if got is not None:
            down(cluster)
            return 0
        if not cluster.is_alive:
            if running.is_known(cluster):
                running.forget(cluster)
                raise FailureError(
                    "The cluster's Ray has died: see the logs in the data directory."
                )
            return 0


def _in_background(options: UpOptions, overrides: Mapping[str, str]) -> int:
    """Start everything from a child process that belongs to no terminal; say what it says."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _start_and_exit(options, overrides)
    with _signals_raise():
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except _Stopped:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
            return 1


def _start_and_exit(options: UpOptions, overrides: Mapping[str, str]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        with _signals_raise():
            _bring_up(options, overrides)
        code = 0
    except CommandError as error:
        print(f"rollcall: {error}", file=sys.stderr, flush=True)
        code = error.exit_code
    except _Stopped:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """Turn the first signal to stop into :class:`_Stopped`; the next ones change nothing."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in STOPPING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise _Stopped

    for number in STOPPING_SIGNALS:
        signal.signal(number, stop)
    try:
        yield
    finally:
        # From here on they wait until sigtimedwait takes them.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING_SIGNALS)
