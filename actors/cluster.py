"""Everything that is asked of Ray: actors and their options, connecting, starting, stopping.

The classes behind the actors are plain; here they get a process, a name in the namespace
``rollcall`` and a restart after each crash. Actors are detached: they outlive the command that
started them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from actors import ray_peers
from actors.assignor import Assignor
from actors.errors import BadInputError, FailureError
from actors.lean import leave_out_hypothesis
from actors.ray_peers import (
    CONTROLLER,
    NAMESPACE,
    Actors,
    assignor_name,
    coordinator_name,
    first_line,
)
from actors.text_log import log_lines_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kio.static.protocol import Entity

    from actors.spec import ClusterSpec
    from failover.cluster_view import Node
    from protocol.groups.effects import Request
    from protocol.groups.facts import MemberEvent
    from storage.messages import Message

ACTOR_OPTIONS: Final[Mapping[str, Any]] = {
    "namespace": NAMESPACE,
    "lifetime": "detached",
    "num_cpus": 0,
    "max_restarts": -1,
    "max_concurrency": 1_000,
}
"""For every actor of ours; calls are not repeated by Ray, whoever asks decides that."""

SPREAD: Final[Mapping[str, Any]] = {"scheduling_strategy": "SPREAD"}
"""For coordinators: a machine that is lost takes as few of them along as can be."""

AUTO: Final = "auto"
CONNECT_S: Final = 5.0
READY_S: Final = 60.0
STOP_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Opened:
    """What a coordinator tells once its log is open; ``failure`` is a sentence if it is not."""

    directory_id: str
    failure: str


class CoordinatorActor:
    """A coordinator's process. What is asked of it is what its peers may ask."""

    def __init__(self, spec: ClusterSpec, node_id: int) -> None:
        leave_out_hypothesis()
        from actors.coordinator import Coordinator
        from actors.telemetry import Telemetry

        log_lines_to(spec.text_log_path(coordinator_name(node_id)))
        telemetry = Telemetry(
            {
                "service.instance.id": coordinator_name(node_id),
                "rollcall.cluster_id": spec.cluster_id,
            }
        )
        ours = ray_peers.RayPeers(node_id, spec.partitions)
        workers = ray_peers.RayWorkers()
        self._coordinator = Coordinator(spec, node_id, ours, telemetry, workers=workers)
        self._coordinator.start()

    async def opened(self) -> Opened:
        """Wait until the log is open, or can not be."""
        await self._coordinator.opened.wait()
        return Opened(self._coordinator.directory_id, self._coordinator.failure)

    async def form(self, directories: tuple[str, ...]) -> None:
        """Learn which directories the cluster was formed of."""
        self._coordinator.form(directories)

    async def directories(self) -> tuple[str, ...]:
        """Tell which directories the cluster was formed of, if it is known here."""
        return self._coordinator.directories

    async def ready(self) -> str:
        """Wait until clients find everything here; return what went wrong, or nothing."""
        await self._coordinator.ready.wait()
        return self._coordinator.failure

    async def status(self) -> dict[str, Any]:
        """Return what the coordinator knows of itself."""
        return self._coordinator.status()

    async def set_leaders(self, leaders: Mapping[int, int]) -> None:
        """Learn who leads what."""
        self._coordinator.set_leaders(leaders)

    async def receive_peer(self, node_id: int, messages: Sequence[Message]) -> None:
        """Take what another coordinator's replicas said."""
        self._coordinator.receive_peer(node_id, messages)

    async def node_changed(self, node: Node) -> bool:
        """Tell the catalogue about a node; False when it is not led here."""
        from failover.catalog import NodeChanged

        return self._coordinator.catalog_event(NodeChanged(node))

    async def forwarded_here(self, request: Request) -> Entity | None:
        """Answer a request that another node's client made."""
        return await self._coordinator.forwarded_here(request)

    async def events(self, group_id: str) -> list[MemberEvent]:
        """Return the diary of a group led here."""
        return self._coordinator.events(group_id)

    async def stop(self) -> None:
        """End cleanly; the process itself is ended by whoever asked."""
        await self._coordinator.stop()


class ControllerActor:
    """The controller's process."""

    def __init__(self, spec: ClusterSpec) -> None:
        from actors.controller import Controller
        from actors.data_dir import hold_lock

        log_lines_to(spec.text_log_path(CONTROLLER))
        self._lock = hold_lock(spec.data_dir)
        self._controller = Controller(spec, _Around())
        self._starting = asyncio.get_running_loop().create_task(self._controller.start())

    async def ready(self) -> str:
        """Wait until it watches; return what went wrong, or nothing."""
        try:
            await self._starting
        except OSError as error:
            return str(error)
        return ""

    async def announce(self, node_id: int, pid: int) -> Mapping[int, int]:
        """Take a coordinator's word that it serves."""
        return self._controller.announce(node_id, pid)

    async def status(self) -> dict[str, Any]:
        """Return the cluster as ``rollcall status`` shows it."""
        return await self._controller.status()

    async def spec(self) -> ClusterSpec:
        """Return what this cluster is."""
        return self._controller.spec

    async def stop(self) -> None:
        """End watching."""
        await self._controller.stop()


class _Around:
    """The controller's way to the other actors (:class:`actors.controller.Cluster`)."""

    def __init__(self) -> None:
        self._actors = Actors()

    async def ask(self, name: str, method: str, *arguments: object, wait_s: float = 5.0) -> Any:
        return await self._actors.ask(name, method, *arguments, wait_s=wait_s)

    async def register(self, node: Node) -> bool:
        return await ray_peers.register(self._actors, node)


# --- from the command line's process


@contextlib.contextmanager
def connected(address: str) -> Iterator[str]:
    """Be a Ray driver for a while and know its address; ``auto`` finds the Ray of this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    if address != AUTO:
        _must_listen(address)
    try:
        with _silent():
            ray.init(
                address=address,
                namespace=NAMESPACE,
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.CRITICAL,
            )
    except (ConnectionError, ValueError, RuntimeError, RayError) as error:
        raise BadInputError(
            f"No Ray answers at {address}; if it wants a token, set RAY_AUTH_MODE=token."
            if address != AUTO
            else "No Ray runs on this machine: begin one with `ray start --head`, "
            "or leave --address out."
        ) from error
    try:
        yield ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()


def _must_listen(address: str) -> None:
    """Refuse an address where nothing listens: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise BadInputError(f"--address wants auto, local or HOST:PORT and not {address!r}.")
    if host in {"localhost", "127.0.0.1", "::1"}:
        host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]  # as Ray does
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except (OSError, OverflowError):
        raise BadInputError(f"No Ray answers at {address}.") from None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep Ray's remarks from standard error, those of its native code too."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def create(
    spec: ClusterSpec, environment: Mapping[str, str], formed: Callable[[tuple[str, ...]], None]
) -> Callable[[], None]:
    """Create every actor of a cluster, wait until clients find everything; return its end.

    ``environment`` is for the coordinators, beside what they have from their Ray. ``formed`` is
    called at the very first start, to write down which directories the cluster is formed of.
    """
    if find(CONTROLLER) is not None:
        raise BadInputError(
            "A Rollcall cluster already runs on this Ray: stop it with `rollcall down` first."
        )

    def end() -> None:
        destroy(spec.partitions, spec.workers)

    try:
        _create(spec, environment, formed)
    except GetTimeoutError:
        end()
        raise FailureError(
            f"The coordinators were not ready within {READY_S:g} s: see {spec.data_dir}/logs."
        ) from None
    except (RayActorError, RayTaskError) as error:
        end()
        raise FailureError(f"An actor could not start: {first_line(error)}") from error
    except BaseException:
        end()
        raise
    return end


def _create(
    spec: ClusterSpec, environment: Mapping[str, str], formed: Callable[[tuple[str, ...]], None]
) -> None:
    runtime: Any = {"runtime_env": {"env_vars": dict(environment)}} if environment else {}
    coordinators = [
        ray.remote(CoordinatorActor)
        .options(**ACTOR_OPTIONS, **SPREAD, **runtime, name=coordinator_name(node_id))
        .remote(spec, node_id)
        for node_id in range(spec.partitions)
    ]
    controller = _actor(ControllerActor, CONTROLLER, spec)
    if not spec.directories:
        _form(coordinators, formed)
    ready = [actor.ready.remote() for actor in (controller, *coordinators)]
    for failure in filter(None, ray.get(ready, timeout=READY_S)):
        raise FailureError(failure)
    for number in range(spec.workers):
        _actor(Assignor, assignor_name(number)).warm_up.remote()


def _form(coordinators: Sequence[Any], formed: Callable[[tuple[str, ...]], None]) -> None:
    """Agree on the directories that the cluster begins with: written down first, then told."""
    opened = ray.get([actor.opened.remote() for actor in coordinators], timeout=READY_S)
    for row in opened:
        if row.failure:
            raise FailureError(row.failure)
    directories = tuple(row.directory_id for row in opened)
    formed(directories)
    ray.get([actor.form.remote(directories) for actor in coordinators], timeout=READY_S)


def _actor(plain: type, name: str, *arguments: object) -> Any:
    return ray.remote(plain).options(**ACTOR_OPTIONS, name=name).remote(*arguments)


def find(name: str) -> Any | None:
    """Return the handle of a named actor of this Ray, if it is there."""
    try:
        return ray.get_actor(name, NAMESPACE)
    except ValueError:
        return None


def running_spec() -> ClusterSpec:
    """Return what the cluster of this Ray is."""
    return _ask_controller("spec")  # type: ignore[no-any-return]


def status() -> dict[str, Any]:
    """Return the status of the cluster of this Ray."""
    return _ask_controller("status")  # type: ignore[no-any-return]


def _ask_controller(method: str) -> Any:
    controller = find(CONTROLLER)
    if controller is None:
        raise FailureError("No Rollcall cluster runs on this Ray: start one with `rollcall up`.")
    try:
        return ray.get(getattr(controller, method).remote(), timeout=STOP_S)
    except (GetTimeoutError, RayActorError, RayTaskError) as error:
        raise FailureError(f"The controller does not answer: {first_line(error)}") from error


def events(node_id: int, group_id: str) -> list[MemberEvent]:
    """Return the diary of a group that ``node_id`` coordinates."""
    coordinator = find(coordinator_name(node_id))
    if coordinator is None:
        raise FailureError(f"Coordinator {node_id} is not there.")
    try:
        found: list[MemberEvent] = ray.get(coordinator.events.remote(group_id), timeout=STOP_S)
    except (GetTimeoutError, RayActorError, RayTaskError) as error:
        raise FailureError(f"Coordinator {node_id} does not answer: {first_line(error)}") from error
    return found


def destroy(partitions: int, workers: int) -> None:
    """Stop every actor of a cluster: first the watcher, then the coordinators, cleanly."""
    names = [CONTROLLER, *(coordinator_name(node_id) for node_id in range(partitions))]
    workers_names = [assignor_name(number) for number in range(workers)]
    with contextlib.suppress(RayError):
        handles = [handle for name in names if (handle := find(name)) is not None]
        for group in (handles[:1], handles[1:]):
            if stopping := [handle.stop.remote() for handle in group]:
                ray.wait(stopping, num_returns=len(stopping), timeout=STOP_S)
        handles += [handle for name in workers_names if (handle := find(name)) is not None]
        for handle in handles:
            ray.kill(handle, no_restart=True)
