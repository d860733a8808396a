"""Decide when a coordinator whose host is lost starts on another host, and on which one.

Its new replicas start empty, as those of a lost disk: the leaders fill them, then vote the lost
ones out and the new ones in. So nothing is replaced before the other replicas are known to have
everything. One coordinator is replaced at a time.

Pure: the controller passes what it sees, and starts the coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from failover.control.healing import may_set_aside
from failover.partition_kinds import CATALOG, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from failover.partitions.status import PartitionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsView:
    """What the controller sees.

    ``homes`` are the hosts of the coordinators, by node id, ``living`` the hosts that can run
    coordinators, with their racks. ``reports`` are those of the coordinators that serve.
    """

    homes: Sequence[str]
    living: Mapping[str, str | None]
    reports: Mapping[int, Sequence[PartitionStatus]]


@dataclass(frozen=True, slots=True)
class Replacement:
    """Requests that coordinator ``node_id`` starts empty on ``host``."""

    node_id: int
    host: str


class ReplacementPlanner:
    """Watches the hosts of one cluster. ``problems`` are sentences about what is not replaced."""

    def __init__(self, placement: Sequence[Sequence[int]], after_ms: int) -> None:
        """``after_ms`` is ``replica.replace.after.ms``; 0: replace nothing."""
        self._placement = placement
        self._after_ms = after_ms
        self._away_from_ms: dict[int, int] = {}
        self.problems: tuple[str, ...] = ()

    def look(self, view: HostsView, now: int) -> Replacement | None:
        """Return the coordinator to replace now, if there is one."""
        away = [
            node_id
            for node_id, home in enumerate(view.homes)
            if home and home not in view.living and node_id not in view.reports
        ]
        since = self._away_from_ms
        self._away_from_ms = {node_id: since.get(node_id, now) for node_id in away}
        self.problems = ()
        if not self._after_ms or _is_replacing(view.reports.values()):
            return None
        problems = []
        for node_id in sorted(away, key=lambda one: (self._away_from_ms[one], one)):
            if now - self._away_from_ms[node_id] < self._after_ms:
                continue
            if not may_set_aside(node_id, self._placement, view.reports):
                continue
            host = spare_host(node_id, self._placement, view.homes, view.living)
            if host is not None:
                return Replacement(node_id, host)
            problems.append(
                f"The host {view.homes[node_id]} of coordinator {node_id} is away, and no host is "
                "spare: each of the others has a replica of its partitions. "
                "Add a host to the Ray cluster."
            )
        self.problems = tuple(problems)
        return None


def spare_host(
    node_id: int,
    placement: Sequence[Sequence[int]],
    homes: Sequence[str],
    living: Mapping[str, str | None],
) -> str | None:
    """Return the host for a coordinator that leaves its own; None if no host is spare.

    A spare host has no other replica of the coordinator's partitions, nor of the catalogue if the
    coordinator votes on that. Racks without such replicas come first, then hosts with the fewest
    coordinators.
    """
    catalog = range(max(map(len, placement), default=0))
    held = [nodes for nodes in (*placement, catalog) if node_id in nodes]
    beside = {homes[other] for nodes in held for other in nodes if other != node_id}
    racks = {living[host] for host in beside if living.get(host) is not None}
    spare = [host for host in living if host not in beside and host != homes[node_id]]
    return min(
        spare,
        key=lambda host: (living[host] in racks, [*homes].count(host), len(host), host),
        default=None,
    )


def _is_replacing(reports: Iterable[Sequence[PartitionStatus]]) -> bool:
    """Whether a replica is being filled; the catalogue's observers always are."""
    led = (row for rows in reports for row in rows if row.state == "Leader")
    return any(row.learners for row in led if kind_of(row.partition) is not CATALOG)
