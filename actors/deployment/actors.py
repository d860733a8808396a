"""The Ray actors, and the calls to them from a command's process.

The classes behind the actors are plain; here each gets a process. ``actors/deployment/starting.py``
starts them, with a name in the namespace ``rollcall`` and a restart after each crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.cluster import ray_calls, ray_peers
from actors.cluster.ray_calls import NOT_ANSWERED, NOT_CONNECTED, find
from actors.cluster.ray_peers import CONTROLLER, Actors, cause, coordinator_name
from actors.errors import (
    BadInputError,
    CommandError,
    FailureError,
    NoClusterError,
    NoRayError,
)
from actors.logs.file import log_to_file
from actors.logs.line_format import format_of
from actors.priority import EVENT_LOOP_NICENESS, raise_own_priority
from actors.skip_hypothesis import skip_hypothesis
from failover.routing import partition_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actors.cluster.forwarding import Answers
    from actors.cluster.spec import Address, ClusterSpec
    from actors.coordinator.incidents import Recorded
    from actors.coordinator.state_copies import CopySlice, CopyStart
    from actors.deployment.controller import MovedLeadership
    from actors.deployment.host_watch import HostControl
    from failover.catalogue.cluster_view import Node
    from failover.control.balancing import CoordinatorMove
    from protocol.groups.effects import Request

AUTO: Final = "auto"
CONNECT_S: Final = 5.0
STOP_S: Final = 10.0
REPLACE_S: Final = 90.0
EXPORT_S: Final = 2.0
"""How long the last export of metrics may take, if metrics are exported."""


@dataclass(frozen=True, slots=True)
class LogOpenResult:
    """The result of opening a coordinator's log; ``failure`` is a sentence if that failed.

    A damaged log may be restored from the other replicas; a new one was never part of a cluster.
    ``formed`` are the directories that the cluster was formed from, if this node knows them.
    ``is_mistake``: the operator has installed a version that must not serve this cluster.
    """

    directory_id: str
    failure: str
    is_damaged: bool
    is_new: bool
    formed: tuple[str, ...] = ()
    is_mistake: bool = False

    def refusal(self, failure: str) -> CommandError:
        """Return the error of a start that this failure ends."""
        return BadInputError(failure) if self.is_mistake else FailureError(failure)


class CoordinatorActor:
    """A coordinator's process; its methods are the calls that other actors may make."""

    def __init__(self, spec: ClusterSpec, node_id: int) -> None:
        skip_hypothesis()
        from actors.cluster.data_dir import read_secret
        from actors.cluster.node_rack import with_node_rack
        from actors.coordinator.coordinator import Coordinator
        from actors.telemetry.observer import Telemetry, open_metrics

        raise_own_priority(EVENT_LOOP_NICENESS)
        log_to_file(spec.text_log_path(coordinator_name(node_id)), format_of(spec.overrides))
        resource = {
            "service.instance.id": coordinator_name(node_id),
            "rollcall.cluster_id": spec.cluster_id,
        }
        self._telemetry = telemetry = Telemetry(
            resource,
            partition_of=partial(partition_for, partitions=spec.partitions),
            own_file=spec.traces_path(coordinator_name(node_id)),
        )
        secret = read_secret(Path(spec.data_dir))
        ours = ray_peers.RayPeers(node_id, spec.partitions, secret)
        workers = ray_peers.RayWorkers()
        labels = ray_calls.own_node_labels()  # each label has one value
        spec = with_node_rack(spec, labels, node_id)
        self._coordinator = Coordinator(spec, node_id, ours, telemetry, workers=workers)
        self._export = open_metrics(
            resource,
            lambda _: [((), {"metrics": self._coordinator.metrics()})],
            self._coordinator.histograms(),
        )
        self._coordinator.start()

    async def opened(self) -> LogOpenResult:
        """Wait until the log is open or has failed to open."""
        await self._coordinator.opened.wait()
        ours = self._coordinator
        return LogOpenResult(
            ours.directory_id,
            ours.failure,
            ours.is_damaged,
            ours.is_new,
            ours.directories,
            ours.is_mistake,
        )

    async def form(self, directories: tuple[str, ...]) -> None:
        """Store the directories that the cluster was formed from."""
        self._coordinator.form(directories)

    async def directories(self) -> tuple[str, ...]:
        """Return the directories that the cluster was formed from; empty if unknown."""
        return self._coordinator.directories

    async def ready(self) -> str:
        """Wait until clients can use every partition; return the failure, or ""."""
        await self._coordinator.ready.wait()
        return self._coordinator.failure

    async def status(self) -> dict[str, Any]:
        """Return the coordinator's status."""
        return {**self._coordinator.status(), "traces": self._telemetry.traces()}

    async def metrics(self) -> dict[str, Any]:
        """Return the coordinator's metrics."""
        return self._coordinator.metrics()

    async def node_changed(self, node: Node) -> bool:
        """Record a node in the catalogue; False if this node does not lead the catalogue."""
        return self._coordinator.node_changed(node)

    async def peer_moved(self, node_id: int, host: str, port: int) -> None:
        """Store a peer's new address."""
        self._coordinator.peer_moved(node_id, host, port)

    async def peer_address(self) -> tuple[str, int] | None:
        """Return the address of this node's peer listener."""
        return self._coordinator.peer_address()

    async def campaign(self, partition: int) -> None:
        """Stand for election."""
        self._coordinator.campaign(partition)

    async def transfer(self, partition: int, node_id: int) -> None:
        """Transfer a partition's leadership to another node."""
        self._coordinator.transfer(partition, node_id)

    async def hand_over(self) -> list[int]:
        """Transfer all leaderships; return the partitions that could not be moved."""
        return await self._coordinator.hand_over()

    async def take_back(self) -> None:
        """Allow this node to lead again."""
        self._coordinator.take_back()

    async def start_empty(self) -> None:
        """Replace a damaged log with an empty one."""
        self._coordinator.start_empty()

    async def die(self) -> None:
        """End this process at once, as a crash does (drills)."""
        os.kill(os.getpid(), signal.SIGKILL)

    async def cut(self, node_ids: Sequence[int]) -> None:
        """Cut the links to these nodes (drills)."""
        self._coordinator.cut(node_ids)

    async def slow_disk(self, sync_ms: int) -> None:
        """Delay each sync of the log by ``sync_ms`` (drills); 0 ends the delay."""
        self._coordinator.slow_disk(sync_ms)

    async def mend(self) -> None:
        """Restore all links (drills)."""
        self._coordinator.mend()

    async def forwarded_here(self, requests: Sequence[Request]) -> Answers:
        """Handle requests that another node forwarded; None for one without a response."""
        asked = (self._coordinator.forwarded_here(request) for request in requests)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [None if isinstance(answer, BaseException) else answer for answer in answers]

    async def record(self) -> Recorded:
        """Return the recent events of the groups that are led here, as a file."""
        return await self._coordinator.record()

    async def begin_copy(self, partition: int) -> CopyStart:
        """Begin to copy the committed state of a partition that is led here."""
        return self._coordinator.begin_copy(partition)

    async def read_copy(self, partition: int, copy_id: int) -> CopySlice:
        """Return the next records of a copy."""
        return self._coordinator.read_copy(partition, copy_id)

    async def stop(self) -> None:
        """Stop cleanly; the caller then ends the process."""
        await self._coordinator.stop()
        if self._export is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._export.close, EXPORT_S)


class ControllerActor:
    """The controller's process."""

    def __init__(self, spec: ClusterSpec, hosts: HostControl) -> None:
        from actors.cluster.data_dir import hold_lock
        from actors.deployment.cluster_export import open_cluster_metrics
        from actors.deployment.controller import Controller

        log_to_file(spec.text_log_path(CONTROLLER), format_of(spec.overrides))
        self._lock = hold_lock(spec.data_dir)
        self._controller = Controller(spec, Actors(), hosts)
        resource = {"service.instance.id": CONTROLLER, "rollcall.cluster_id": spec.cluster_id}
        self._export = open_cluster_metrics(resource, self._controller.overview)
        self._starting = asyncio.get_running_loop().create_task(self._controller.start())

    async def ready(self) -> str:
        """Wait until it has started; return the failure, or ""."""
        try:
            await self._starting
        except OSError as error:
            return str(error)
        return ""

    async def console_at(self, address: Address) -> None:
        """Record where the console listens."""
        self._controller.console_at(address)

    async def settle(self) -> None:
        """Move leaderships to the preferred nodes, for a limited time."""
        await self._controller.settle()

    async def announce(self, node_id: int, pid: int) -> None:
        """Record that a coordinator is serving."""
        self._controller.announce(node_id, pid)

    async def drain(self, node_id: int) -> list[MovedLeadership]:
        """Move all leaderships away from a node until it restarts."""
        return await self._controller.drain(node_id)

    async def end_drain(self, node_id: int) -> None:
        """Allow a drained node to lead again."""
        await self._controller.end_drain(node_id)

    async def drill(self, name: str, *arguments: int) -> tuple[str, str]:
        """Carry out a drill; return what was done, or "" and why it was not."""
        try:
            return await self._controller.drills.carry_out(name, *arguments), ""
        except CommandError as error:
            return "", str(error)

    async def replace(self, node_id: int, host: str | None) -> tuple[str, str]:
        """Move a coordinator to another host; return the host, or "" and why that failed."""
        try:
            return await self._controller.mover.replace(node_id, host), ""
        except CommandError as error:
            return "", str(error)

    async def moves(
        self, without: Sequence[str] = (), may_share: bool = False
    ) -> tuple[Sequence[CoordinatorMove], str]:
        """Return the moves that would balance the cluster, or why there must be none now."""
        try:
            return await self._controller.mover.moves(without, may_share), ""
        except CommandError as error:
            return (), str(error)

    async def move(self, node_id: int, host: str, bytes_per_s: int, *goal: Any) -> str:
        """Make the first of the ``moves`` to this ``goal``; return why that failed, or ""."""
        try:
            await self._controller.mover.move(node_id, host, bytes_per_s, *goal)
        except CommandError as error:
            return str(error)
        return ""

    async def status(self) -> dict[str, Any]:
        """Return the cluster as ``rollcall status`` shows it."""
        return await self._controller.status()

    async def overview(self) -> dict[str, Any]:
        """Return the same without metrics, which costs coordinators nothing."""
        return await self._controller.overview()

    async def spec(self) -> ClusterSpec:
        """Return the cluster's definition."""
        return self._controller.spec

    async def stop(self) -> None:
        """Stop watching."""
        if self._export is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._export.close, EXPORT_S)
        await self._controller.stop()


# --- from the command line's process


@contextlib.contextmanager
def connected(address: str) -> Iterator[str]:
    """Connect to Ray for the block and yield its address; ``auto``: the Ray of this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    if address != AUTO:
        _must_listen(address)
    try:
        with _silent(), _own_signals():
            ray_calls.connect(address)
    except NOT_CONNECTED as error:
        raise NoRayError(
            f"No Ray answers at {address}. If it needs a token, set RAY_AUTH_MODE=token."
            if address != AUTO
            else "No Ray is running on this machine. Start one with `ray start --head`, "
            "or omit --address."
        ) from error
    try:
        yield ray_calls.ray_address()
    finally:
        ray_calls.disconnect()


def _must_listen(address: str) -> None:
    """Raise NoRayError if nothing listens there: Ray would retry for minutes."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit():
        raise BadInputError(f"--address needs auto, local or HOST:PORT, not {address!r}.")
    if host in {"localhost", "127.0.0.1", "::1"}:
        host = ray_calls.machine_address()
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except (OSError, OverflowError):
        raise NoRayError(f"No Ray answers at {address}.") from None


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this process's SIGTERM handler, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Suppress Ray's output on standard error, including that of its native code."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def running_spec() -> ClusterSpec:
    """Return the definition of the cluster on this Ray."""
    return ask_controller("spec")  # type: ignore[no-any-return]


def status() -> dict[str, Any]:
    """Return the status of the cluster on this Ray."""
    return ask_controller("status")  # type: ignore[no-any-return]


def ask_controller(method: str, *arguments: object, wait_s: float = STOP_S) -> Any:
    """Call the controller of the cluster on this Ray; raises FailureError."""
    controller = find(CONTROLLER)
    if controller is None:
        raise NoClusterError(
            "No Rollcall cluster is running on this Ray. Start one with `rollcall up`."
        )
    try:
        return ray_calls.answer(getattr(controller, method).remote(*arguments), wait_s)
    except NOT_ANSWERED as error:
        raise FailureError(f"The controller does not answer: {cause(error)}") from error


def drain(which: str, *, end: bool = False) -> list[MovedLeadership]:
    """Move all leaderships away from a node, or from a host; ``end``: allow them to lead again."""
    moved: dict[int, MovedLeadership] = {}
    for node_id in _nodes_meant(which, running_spec()):
        rows = ask_controller("end_drain" if end else "drain", node_id)
        moved |= {row.partition: row for row in rows or ()}
    return list(moved.values())


def _nodes_meant(which: str, spec: ClusterSpec) -> list[int]:
    """Return the coordinator with this number, or those on the host with this address."""
    if which.isdecimal():
        if not int(which) < spec.partitions:
            raise BadInputError(f"There is no coordinator {which}.")
        return [int(which)]
    found = [node_id for node_id, place in enumerate(spec.places) if place.ray_host == which]
    if not found:
        raise BadInputError(f"No coordinator is on a host {which}.")
    return found


def replace_coordinator(node_id: int, host: str | None) -> str:
    """Move a coordinator to a host, or to a spare one; return the host."""
    if not 0 <= node_id < running_spec().partitions:
        raise BadInputError(f"There is no coordinator {node_id}.")
    to, why = ask_controller("replace", node_id, host, wait_s=REPLACE_S)
    if why:
        raise FailureError(why)
    return str(to)


def record(node_id: int) -> Recorded:
    """Return the recent events of the groups that ``node_id`` leads."""
    recorded: Recorded = _ask_coordinator(node_id, "record")
    return recorded


def begin_copy(node_id: int, partition: int) -> CopyStart:
    """Begin to copy the committed state of a partition that ``node_id`` leads."""
    start: CopyStart = _ask_coordinator(node_id, "begin_copy", partition)
    return start


def read_copy(node_id: int, partition: int, copy_id: int) -> CopySlice:
    """Return the next records of a copy."""
    found: CopySlice = _ask_coordinator(node_id, "read_copy", partition, copy_id)
    return found


def _ask_coordinator(node_id: int, method: str, *arguments: object) -> Any:
    coordinator = find(coordinator_name(node_id))
    if coordinator is None:
        raise FailureError(f"Coordinator {node_id} is not running.")
    try:
        return ray_calls.answer(getattr(coordinator, method).remote(*arguments), STOP_S)
    except NOT_ANSWERED as error:
        raise FailureError(f"Coordinator {node_id} does not answer: {cause(error)}") from error
