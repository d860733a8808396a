"""Moves coordinators for the controller: from lost hosts, to hosts with room, after interruptions.

The controller (:class:`WatchedCluster`) says what the coordinators report;
:class:`actors.deployment.host_watch.HostWatch` knows the hosts.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.deployment.balancing import no_room, obstacle, offer
from actors.deployment.host_watch import HostWatch
from actors.deployment.status import SERVING, cluster_status, partition_status
from actors.errors import CommandError, FailureError
from failover.control.healing import may_set_aside
from failover.control.replacement import Replacement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.cluster.spec import ClusterSpec
    from actors.deployment.host_watch import HostControl
    from actors.tasks import Tasks
    from failover.control.balancing import CoordinatorMove
    from failover.partitions.status import PartitionStatus

    Statuses = Mapping[int, Mapping[str, Any]]

STOPPED: Final = "Stopped"
"""The state of a coordinator that was stopped to be moved, until its process ends."""

RESTORE_AGAIN_S: Final = 5.0
SPARE_LOOKS: Final = 20
SPARE_LOOK_S: Final = 0.5
"""How often, and after what pause, a coordinator is asked whether it can be spared."""


class WatchedCluster(Protocol):
    """The cluster as the controller sees it."""

    spec: ClusterSpec

    async def statuses(self) -> Statuses:
        """Return the status of every coordinator that answers."""

    def keep_from_leading(self, node_id: int, is_kept: bool = True) -> None:
        """Transfer leaderships away from a coordinator; or let it lead again."""

    def look_soon(self) -> None:
        """Look at the coordinators at once, and give orders."""


class Mover:
    """Moves coordinators of one cluster, one at a time; changes the cluster's definition."""

    def __init__(self, cluster: WatchedCluster, hosts: HostControl | None, tasks: Tasks) -> None:
        """Without ``hosts``, nothing is moved."""
        self._cluster = cluster
        self._watch = HostWatch(cluster.spec, hosts)
        self._tasks = tasks
        self._restoring: asyncio.Task[object] | None = None
        self._learning: asyncio.Task[object] | None = None
        self._known: set[int] = set()
        """The coordinators whose hosts are known: they said so, or the newest cluster file does."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences about coordinators that have no host."""
        return self._watch.problems

    async def look(self, statuses: Statuses, now: int) -> None:
        """Learn where coordinators are; start those elsewhere whose host has been away for long."""
        cluster = self._cluster
        for node_id, status in statuses.items():  # some moved before this process started
            place = status.get("place", cluster.spec.places[node_id])
            if place != cluster.spec.places[node_id] and not self._watch.is_relocating:
                cluster.spec = cluster.spec.with_place(node_id, place)
        self._known.update(statuses)
        if self._unknown():
            return
        lost = await self._watch.look(cluster.spec, reports_of(statuses), now)
        if lost is not None:
            self._tasks.spawn(self._start_empty(lost))

    async def replace(self, node_id: int, host: str | None) -> str:
        """Start a coordinator, empty, on a host, or on a spare one, at once; return the host.

        Raises CommandError if the other replicas may lack records, or if there is no such host.
        """
        reports = reports_of(await self._cluster.statuses())
        to = await self._watch.choose(self._cluster.spec, reports, node_id, host)
        await self._start_empty(Replacement(node_id, to))
        return to

    async def _start_empty(self, replacement: Replacement) -> None:
        cluster = self._cluster
        before = cluster.spec
        self._moved(before, await self._watch.start_empty(before, replacement))
        cluster.look_soon()

    def _moved(self, before: ClusterSpec, after: ClusterSpec) -> None:
        """Change the places that differ; others may have changed while hosts were asked."""
        for node_id, place in enumerate(after.places):
            if place != before.places[node_id]:
                self._cluster.spec = self._cluster.spec.with_place(node_id, place)

    def _unknown(self) -> list[int]:
        return [one for one in range(self._cluster.spec.partitions) if one not in self._known]

    def learn_homes(self) -> None:
        """Learn where coordinators belong that never answered: they may have moved before.

        Nothing is replaced before that is known.
        """
        if self._unknown() and (self._learning is None or self._learning.done()):
            self._learning = self._tasks.spawn(self._learn())

    async def _learn(self) -> None:
        cluster, before, unknown = self._cluster, self._cluster.spec, self._unknown()
        with suppress(CommandError):  # it is in the log, and tried again
            found = await self._watch.at_home(before, unknown)
            if not self._watch.is_relocating and cluster.spec.places == before.places:
                self._moved(before, found)
                self._known.update(unknown)
        await asyncio.sleep(RESTORE_AGAIN_S)

    def restore_absent(self, statuses: Statuses) -> None:
        """Create a coordinator that does not exist, as a move of it was interrupted."""
        missing = [
            node_id
            for node_id in range(self._cluster.spec.partitions)
            if statuses.get(node_id, {"state": STOPPED})["state"] == STOPPED
        ]
        if missing and (self._restoring is None or self._restoring.done()):
            self._restoring = self._tasks.spawn(self._restore(missing))

    async def _restore(self, missing: Sequence[int]) -> None:
        cluster = self._cluster
        with suppress(CommandError):  # it is in the log, and tried again
            before = cluster.spec
            self._moved(before, await self._watch.restore(before, missing))
        await asyncio.sleep(RESTORE_AGAIN_S)

    async def moves(
        self, without: Sequence[str] = (), may_share: bool = False
    ) -> tuple[CoordinatorMove, ...]:
        """Return the moves that would balance the cluster, one after the other.

        Nothing is left on the hosts ``without`` then; ``may_share``: even if replicas of one
        partition then share a host. Raises CommandError if nothing may be moved now.
        """
        cluster, statuses = self._cluster, await self._cluster.statuses()
        pids = [0] * cluster.spec.partitions
        if why := obstacle(cluster_status(cluster.spec, pids, statuses, ())):
            raise FailureError(why)
        reports = reports_of(statuses)
        if not without:
            return await self._watch.moves(cluster.spec, reports)
        found = await self._watch.departure(cluster.spec, reports, without)
        if not may_share and (why := no_room(found.crowded, without)):
            raise FailureError(why)
        return found.moves

    async def overview(self, statuses: Statuses) -> dict[str, Any]:
        """Return the part of the cluster's status that is about hosts."""
        spec = self._cluster.spec
        found = await self._watch.overview(spec, reports_of(statuses))
        return {
            "host_problems": list(self.problems),
            "hosts": {host: list(nodes) for host, nodes in found.nodes.items()},
            "balance": offer(found.moves, [place.ray_host for place in spec.places]),
        }

    async def move(
        self,
        node_id: int,
        host: str,
        bytes_per_s: int,
        without: Sequence[str] = (),
        may_share: bool = False,
    ) -> None:
        """Move a coordinator with its data; its leaderships are transferred first.

        It must be the first of the ``moves`` with the same hosts ``without``. Returns when the
        coordinator has been created on its new host. Raises CommandError.
        """
        moves = await self.moves(without, may_share)
        if [(one.node_id, one.host) for one in moves][:1] != [(node_id, host)]:
            raise FailureError("The hosts or coordinators have changed. Run the command again.")
        cluster = self._cluster
        cluster.keep_from_leading(node_id)
        try:
            await self._wait_until_spare(node_id)
            before = cluster.spec
            self._moved(before, await self._watch.move(before, node_id, host, bytes_per_s))
        except CommandError:
            cluster.keep_from_leading(node_id, False)
            raise
        finally:
            cluster.look_soon()

    async def _wait_until_spare(self, node_id: int) -> None:
        """Wait until a node leads nothing and the others have everything; raises FailureError."""
        cluster = self._cluster
        for _ in range(SPARE_LOOKS):
            cluster.look_soon()
            await asyncio.sleep(SPARE_LOOK_S)
            reports = reports_of(await cluster.statuses())
            if may_set_aside(node_id, cluster.spec.placement(), reports):
                return
        raise FailureError(
            f"Coordinator {node_id} stays: the other replicas of its partitions may lack records, "
            "or cannot lead. Try again later."
        )

    async def close(self) -> None:
        """Let nothing more be moved (:meth:`HostWatch.close`)."""
        await self._watch.close()


def reports_of(statuses: Statuses) -> dict[int, list[PartitionStatus]]:
    """Return what the serving coordinators say of their replicas."""
    return {
        node_id: [partition_status(row) for row in status["partitions"]]
        for node_id, status in statuses.items()
        if status["state"] in SERVING
    }
