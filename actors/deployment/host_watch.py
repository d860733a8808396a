"""Watches the hosts of a cluster for the controller, and moves coordinators between them."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from actors.cluster.ray_peers import UNREACHED, first_line
from actors.deployment.balancing import cannot_be_left
from actors.deployment.copying import CopyLimits
from actors.errors import BadInputError, CommandError, FailureError
from actors.telemetry.rate_limited_log import RateLimitedLog
from failover.control.balancing import Departure, balancing_moves, departure
from failover.control.healing import may_set_aside
from failover.control.replacement import HostsView, Replacement, ReplacementPlanner, spare_host
from protocol.config import Configs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from actors.cluster.spec import ClusterSpec
    from failover.control.balancing import CoordinatorMove
    from failover.partitions.status import PartitionStatus

    Reports = Mapping[int, Sequence[PartitionStatus]]

T = TypeVar("T")

_log = logging.getLogger("rollcall.controller")

REPLACE_AFTER: Final = "replica.replace.after.ms"
LIVING_S: Final = 2.0
AGAIN_MS: Final = 60_000
"""Pause between two moves that nobody asked for."""

NO_HOSTS: Final = (
    "Coordinators can be moved only between the hosts of a Ray cluster, and only while Ray answers."
)

CLOSE_S: Final = 8.0
"""How long the end of a move is waited for when the cluster stops: a copy ends at once."""


class HostControl(Protocol):
    """What can be done to the cluster's hosts; every call blocks."""

    def living(self) -> Mapping[str, str | None]:
        """Return the hosts that can run coordinators, with their racks if these are known."""

    def start_empty(self, spec: ClusterSpec, node_id: int, host: str) -> ClusterSpec:
        """Start a coordinator, empty, on another host; raises CommandError."""

    def move(self, spec: ClusterSpec, node_id: int, host: str, limits: CopyLimits) -> ClusterSpec:
        """Move a coordinator with its data to another host; raises CommandError."""

    def at_home(self, spec: ClusterSpec, node_ids: Sequence[int]) -> ClusterSpec:
        """Return the cluster with these coordinators where the newest cluster file says.

        Raises CommandError if the hosts do not say.
        """

    def absent(self, node_ids: Sequence[int]) -> list[int]:
        """Return those of these coordinators that do not exist or are stopped.

        Those that Ray restarts are neither.
        """

    def restore(self, spec: ClusterSpec, node_id: int) -> ClusterSpec:
        """Create such a coordinator where its data is; raises CommandError."""


@dataclass(frozen=True, slots=True)
class HostsOverview:
    """The coordinators of each host that lives or is some coordinator's, and balancing moves."""

    nodes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    moves: tuple[CoordinatorMove, ...] = ()


class HostWatch:
    """Decides which coordinators leave their hosts, and moves them one at a time.

    ``problems`` are sentences about hosts that are away for long.
    """

    def __init__(self, spec: ClusterSpec, hosts: HostControl | None) -> None:
        """Without ``hosts``, or on one host that has no address, nothing is moved."""
        self._hosts = hosts if any(place.ray_host for place in spec.places) else None
        after_ms = Configs(spec.overrides).integer(REPLACE_AFTER)
        self._planner = ReplacementPlanner(spec.placement(), after_ms)
        self._relocating = asyncio.Lock()
        self._next_ms = 0
        self._asking: asyncio.Future[Mapping[str, str | None]] | None = None
        self._warnings = RateLimitedLog(_log)
        self._is_closing = threading.Event()
        self._placement = spec.placement()
        self._planned: tuple[object, tuple[CoordinatorMove, ...]] = (None, ())

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences about coordinators that have no host."""
        return self._planner.problems

    @property
    def is_relocating(self) -> bool:
        """Whether a coordinator is being moved."""
        return self._relocating.locked()

    async def look(self, spec: ClusterSpec, reports: Reports, now: int) -> Replacement | None:
        """Return the coordinator whose host has been away for too long, if it can be replaced.

        After one was returned, the next one comes a while later: the move may have failed.
        """
        if self.is_relocating or (view := await self._view(spec, reports)) is None:
            return None
        lost = self._planner.look(view, now)
        if lost is not None and now < self._next_ms:
            return None
        if lost is not None:
            self._next_ms = now + AGAIN_MS
            home = spec.places[lost.node_id].ray_host
            _log.warning("coordinator %d: its host %s is lost", lost.node_id, home)
        return lost

    async def choose(
        self, spec: ClusterSpec, reports: Reports, node_id: int, host: str | None
    ) -> str:
        """Return the host to which an operator moves a coordinator; None: a spare one.

        Raises CommandError if the other replicas may lack records, or if no host is spare.
        """
        view = await self._view(spec, reports)
        if view is None:
            raise FailureError(NO_HOSTS)
        if host == view.homes[node_id]:
            raise BadInputError(f"Coordinator {node_id} is on {host} already.")
        if not may_set_aside(node_id, spec.placement(), reports):
            raise FailureError(
                f"Coordinator {node_id} cannot be replaced now: the other replicas of its "
                "partitions may lack records. Try again when `rollcall status` shows them in sync."
            )
        to = host or spare_host(node_id, spec.placement(), view.homes, view.living)
        if to is None:
            raise FailureError(
                f"No host is spare for coordinator {node_id}: each of the others has a replica of "
                "its partitions. Add a host to the Ray cluster, or name one with --to."
            )
        return to

    async def departure(
        self, spec: ClusterSpec, reports: Reports, without: Sequence[str]
    ) -> Departure:
        """Return the moves after which hosts can be taken away.

        Raises CommandError if they cannot be left, or if Ray is silent.
        """
        view = await self._view(spec, reports)
        if view is None:
            raise FailureError(NO_HOSTS)
        if why := cannot_be_left(without, view.living, view.homes):
            raise BadInputError(why)
        return departure(view.homes, view.living, self._placement, without)

    async def overview(self, spec: ClusterSpec, reports: Reports) -> HostsOverview:
        """Return which host has which coordinators; empty on one host, or if Ray is silent."""
        view = await self._view(spec, reports)
        if view is None:
            return HostsOverview()
        known = sorted({*view.living, *view.homes}, key=lambda host: (len(host), host))
        nodes = {host: [n for n, home in enumerate(view.homes) if home == host] for host in known}
        return HostsOverview(nodes, self._balancing(view))

    async def moves(self, spec: ClusterSpec, reports: Reports) -> tuple[CoordinatorMove, ...]:
        """Return the moves that would balance the cluster; raises FailureError if Ray is silent."""
        view = await self._view(spec, reports)
        if view is None:
            raise FailureError(NO_HOSTS)
        return self._balancing(view)

    def _balancing(self, view: HostsView) -> tuple[CoordinatorMove, ...]:
        """Return the moves that balance the cluster; they are kept until hosts change."""
        key = (tuple(view.homes), dict(view.living))
        if self._planned[0] != key:
            self._planned = key, balancing_moves(view.homes, view.living, self._placement)
        return self._planned[1]

    async def start_empty(self, spec: ClusterSpec, replacement: Replacement) -> ClusterSpec:
        """Start a coordinator, empty, on another host; raises CommandError."""
        node_id, host = replacement.node_id, replacement.host
        async with self._alone(f"coordinator {node_id} starts empty on {host}") as hosts:
            return await _in_thread(partial(hosts.start_empty, spec, node_id, host))

    async def move(
        self, spec: ClusterSpec, node_id: int, host: str, bytes_per_s: int
    ) -> ClusterSpec:
        """Move a coordinator with its data to another host; raises CommandError."""
        limits = CopyLimits(bytes_per_s=bytes_per_s, is_cancelled=self._is_closing.is_set)
        async with self._alone(f"coordinator {node_id} moves to {host}") as hosts:
            return await _in_thread(partial(hosts.move, spec, node_id, host, limits))

    async def at_home(self, spec: ClusterSpec, node_ids: Sequence[int]) -> ClusterSpec:
        """Return the cluster with coordinators where they belong; raises CommandError."""
        if self._hosts is None:
            return spec
        try:
            return await _in_thread(partial(self._hosts.at_home, spec, node_ids))
        except CommandError as error:
            self._warnings.warn(f"No host says where coordinators belong: {error}")
            raise

    async def restore(self, spec: ClusterSpec, missing: Sequence[int]) -> ClusterSpec:
        """Create the first of these coordinators that does not exist: a move was interrupted."""
        if self._hosts is None or self.is_relocating or self._is_closing.is_set():
            return spec
        absent = await _in_thread(partial(self._hosts.absent, missing))
        if not absent:
            return spec
        async with self._alone(f"coordinator {absent[0]} does not run and is created") as hosts:
            if absent[0] not in await _in_thread(partial(hosts.absent, absent)):
                return spec  # it was being moved
            return await _in_thread(partial(hosts.restore, spec, absent[0]))

    async def close(self) -> None:
        """Let nothing more be moved; wait for the end of a move that is under way."""
        self._is_closing.set()
        try:
            async with asyncio.timeout(CLOSE_S), self._relocating:
                return
        except TimeoutError:
            _log.warning("a coordinator is still being moved")

    @asynccontextmanager
    async def _alone(self, what: str) -> AsyncIterator[HostControl]:
        """Let one coordinator be moved at a time; log what is done, and why it failed."""
        if self._hosts is None or self._is_closing.is_set():
            raise FailureError("Coordinators of this cluster cannot be moved now.")
        if self.is_relocating:
            raise FailureError("Another coordinator is being moved. Try again later.")
        async with self._relocating:
            _log.warning("%s", what)
            try:
                yield self._hosts
            except CommandError as error:
                _log.warning("%s: that failed: %s", what, error)
                raise

    async def _view(self, spec: ClusterSpec, reports: Reports) -> HostsView | None:
        """Return what is decided from; None on one host, or if Ray does not answer."""
        if self._hosts is None:
            return None
        if self._asking is None or self._asking.done():  # a silent Ray holds one thread, not many
            loop = asyncio.get_running_loop()
            self._asking = loop.run_in_executor(None, self._hosts.living)
        try:
            living = await asyncio.wait_for(asyncio.shield(self._asking), LIVING_S)
        except (*UNREACHED, OSError) as error:
            self._warnings.warn(f"Ray does not say which hosts live: {first_line(error)}")
            return None
        homes = [place.ray_host for place in spec.places]
        return HostsView(homes=homes, living=living, reports=reports)


async def _in_thread(work: Callable[[], T]) -> T:
    """Run a call that blocks."""
    return await asyncio.get_running_loop().run_in_executor(None, work)
