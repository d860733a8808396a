"""The controller: chooses election candidates, moves leadership away and, later, back.

It only gives advice. Replicas vote, so a controller that is dead, stale or duplicated can delay an
election or move a leader once too often, but never create two leaders or lose a record; without it
the election timeouts do its job.

Pure: its driver (an actor or the simulator) provides liveness, reports and time, and delivers the
orders to the hosts (``Host.campaign``, ``Host.transfer``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from failover.partition_kinds import CATALOG, kind_of, replicas

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from failover.partitions.status import PartitionStatus

LOOK_MS: Final = 500
"""How often the driver passes new reports and asks for orders when nothing else happens."""

CAMPAIGN_AGAIN_MS: Final = 400
"""A campaign that elects no leader within this time is given to the next-best replica."""

CAMPAIGN_AGAIN_FACTOR: Final = 4
CAMPAIGN_AGAIN_MS_MAX: Final = 30_000
"""A replica that campaigned twice waits ever longer, up to this: a campaign interrupts another's.

A vote waits for a sync; if the only majority includes a slow disk, an election takes seconds.
"""

REBALANCE_MS: Final = 300_000
"""``leader.imbalance.check.interval.seconds``, unless the driver says otherwise."""

TRANSFER_AGAIN_MS: Final = 3_000
"""Pause between two moves for the sake of balance, across all partitions."""

HAND_OVER_AGAIN_MS: Final = 500
"""Pause between two attempts to move a partition that should move at once."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """Requests that ``node_id`` stands for election in ``partition``."""

    node_id: int
    partition: int


@dataclass(frozen=True, slots=True)
class LeadershipTransfer:
    """Requests that ``node_id``, which leads ``partition``, hands it over to ``to``."""

    node_id: int
    partition: int
    to: int


Order: TypeAlias = Campaign | LeadershipTransfer


@dataclass(slots=True)
class _NodeStatus:
    """What is known about one node. ``rows`` are from its last report."""

    is_up: bool = False
    is_draining: bool = False
    up_ms: int = 0
    rows: dict[int, PartitionStatus] = field(default_factory=dict)


@dataclass(slots=True)
class _Partition:
    """What was ordered for one partition, and since when its preferred replica has been steady.

    ``campaigns`` counts what each node was asked for since there was a leader.
    """

    nodes: tuple[int, ...]
    campaigns: Counter[int] = field(default_factory=Counter)
    ordered_ms: int | None = None
    steady_ms: int | None = None


class LeadershipPlanner:
    """Watches every partition of one cluster.

    ``is_starting`` is set while the whole cluster starts: leadership then returns to the preferred
    replica at once, as clients are only starting to look for their coordinators.
    """

    def __init__(
        self,
        nodes: Iterable[int],
        placement: Sequence[tuple[int, ...]],
        catalog: tuple[int, ...],
        rebalance_ms: int | None = REBALANCE_MS,
    ) -> None:
        """``placement`` as in the hosts' identity; ``catalog`` are the catalogue's voters.

        ``rebalance_ms``: how long all replicas must have been healthy before leadership is moved
        for the sake of balance; None: it never is.
        """
        self._nodes = {node_id: _NodeStatus() for node_id in nodes}
        self._partitions = {
            CATALOG.first: _Partition(catalog),
            **{n: _Partition(held) for n, held in replicas(tuple(placement)).items()},
        }
        self._rebalance_ms = rebalance_ms
        self._moved_ms: int | None = None
        self.is_starting = False

    # --- input from the driver

    def up(self, node_id: int, now: int) -> None:
        """Note that a node's process runs."""
        node = self._nodes[node_id]
        if not node.is_up:
            node.is_up, node.up_ms = True, now

    def down(self, node_id: int) -> None:
        """Note that a node's process is gone; the caller must ask for orders at once."""
        self._nodes[node_id].is_up = False

    def report(self, node_id: int, rows: Iterable[PartitionStatus], now: int) -> None:
        """Take a node's own report about its replicas: the node is up, then."""
        self.up(node_id, now)
        self._nodes[node_id].rows = {row.partition: row for row in rows}

    def drain(self, node_id: int, is_draining: bool = True) -> None:
        """Keep leadership away from a node that is stopping."""
        self._nodes[node_id].is_draining = is_draining

    # --- conclusions

    def leader(self, partition: int) -> int:
        """Return the live node that claims to lead, in the highest epoch; -1 when none does."""
        claims = [
            (row.epoch, node_id)
            for node_id, node in self._nodes.items()
            if node.is_up and (row := node.rows.get(partition)) and row.state == "Leader"
        ]
        return max(claims)[1] if claims else -1

    def is_at_home(self) -> bool:
        """Whether each partition is led, and by its preferred node if that node can lead.

        It cannot while it is down or draining, or while a replica of the partition is no voter.
        """
        return all(
            (leader := self.leader(number)) >= 0
            and (leader == partition.nodes[0] or not self._can_go_home(number, partition, leader))
            for number, partition in self._partitions.items()
        )

    def _can_go_home(self, number: int, partition: _Partition, leader: int) -> bool:
        preferred = self._nodes[partition.nodes[0]]
        voters = self._nodes[leader].rows[number].voters
        row = preferred.rows.get(number)
        if row is None or row.is_slow or not preferred.is_up or preferred.is_draining:
            return False
        return set(partition.nodes) <= set(voters)

    def orders(self, now: int) -> list[Order]:
        """Return what the hosts should do now."""
        found = (
            self._order(number, partition, now) for number, partition in self._partitions.items()
        )
        return [order for order in found if order is not None]

    def _order(self, number: int, partition: _Partition, now: int) -> Order | None:
        leader = self.leader(number)
        if leader < 0:
            partition.steady_ms = None
            return self._campaign(number, partition, now)
        partition.campaigns.clear()
        if self._nodes[leader].is_draining:
            return self._hand_over(number, partition, leader, now)
        return self._give_back(number, partition, leader, now)

    def _campaign(self, number: int, partition: _Partition, now: int) -> Campaign | None:
        """Ask the most complete standby to campaign; then the next best if that did not help."""
        candidates = self._candidates(number, partition)
        if not candidates:
            return None
        node_id = min(candidates, key=partition.campaigns.__getitem__)
        repeated = max(partition.campaigns[node_id] - 1, 0)
        pause_ms = CAMPAIGN_AGAIN_MS * CAMPAIGN_AGAIN_FACTOR**repeated
        pause_ms = min(pause_ms, CAMPAIGN_AGAIN_MS_MAX)
        if partition.campaigns and not self._is_due(partition, now, pause_ms):
            return None
        partition.campaigns[node_id] += 1
        partition.ordered_ms = now
        return Campaign(node_id, number)

    def _candidates(self, number: int, partition: _Partition) -> list[int]:
        """Return the live voters, best first: loaded, not stopping, quick, complete, preferred."""

        def rank(node_id: int) -> tuple[bool, bool, bool, int, int]:
            row = self._nodes[node_id].rows[number]
            order = partition.nodes.index(node_id) if node_id in partition.nodes else 99
            is_loading = row.state == "Loading"
            is_draining = self._nodes[node_id].is_draining
            return is_loading, is_draining, row.is_slow, -row.end_offset, order

        voters = [
            node_id
            for node_id, node in self._nodes.items()
            if node.is_up and (row := node.rows.get(number)) and node_id in row.voters
        ]
        return sorted(voters, key=rank)

    def _hand_over(
        self, number: int, partition: _Partition, leader: int, now: int
    ) -> LeadershipTransfer | None:
        row = self._nodes[leader].rows[number]
        fit = [
            node_id
            for node_id in self._candidates(number, partition)
            if node_id != leader
            and node_id in row.in_sync
            and not self._nodes[node_id].is_draining
            and self._nodes[node_id].rows[number].state == "Follower"
        ]
        if not fit or not self._is_due(partition, now, HAND_OVER_AGAIN_MS):
            return None
        partition.ordered_ms = now
        return LeadershipTransfer(leader, number, fit[0])

    def _give_back(
        self, number: int, partition: _Partition, leader: int, now: int
    ) -> LeadershipTransfer | None:
        """Let the preferred replica lead again: at once if no client notices, else after a while.

        Some clients rejoin their groups whenever a leader changes, so a move costs a rebalance. So
        a partition that holds groups is moved only for balance, after all replicas were in sync for
        ``rebalance_ms``: while one is missing, a failed move is an outage.
        """
        preferred = partition.nodes[0]
        in_sync = self._nodes[leader].rows[number].in_sync
        if (
            self._rebalance_ms is None
            or leader == preferred
            or not set(partition.nodes) <= set(in_sync)
            or not self._is_well(number, preferred, leader)
        ):
            partition.steady_ms = None
            return None
        if self._is_free(number, leader):
            if not self._is_due(partition, now, HAND_OVER_AGAIN_MS):
                return None
            partition.ordered_ms = now
            return LeadershipTransfer(leader, number, preferred)
        if not self._buys_balance(number, leader, preferred):
            partition.steady_ms = None
            return None
        if partition.steady_ms is None:
            partition.steady_ms = now
        since_ms = max(partition.steady_ms, self._nodes[preferred].up_ms)
        is_resting = self._moved_ms is not None and now - self._moved_ms < TRANSFER_AGAIN_MS
        if now - since_ms < self._rebalance_ms or is_resting:
            return None
        partition.ordered_ms = self._moved_ms = now
        return LeadershipTransfer(leader, number, preferred)

    def _is_free(self, number: int, leader: int) -> bool:
        """Return whether a move costs no client anything."""
        if self.is_starting:
            return True
        return kind_of(number).is_balanced and not self._nodes[leader].rows[number].has_groups

    def _buys_balance(self, number: int, leader: int, preferred: int) -> bool:
        """Whether the leader leads at least two more partitions of a kind than the preferred node.

        The catalogue causes almost no load, so it stays where it is.
        """
        kind = kind_of(number)
        if not kind.is_balanced:
            return False
        led = Counter(self.leader(each) for each in self._partitions if kind_of(each) is kind)
        return led[leader] >= led[preferred] + 2

    def _is_well(self, number: int, node_id: int, leader: int) -> bool:
        node, led = self._nodes[node_id], self._nodes[leader].rows[number]
        row = node.rows.get(number)
        return (
            node.is_up
            and not node.is_draining
            and row is not None
            and row.state == "Follower"
            and not row.is_slow
            and node_id in led.in_sync
            and node_id in led.voters
        )

    @staticmethod
    def _is_due(partition: _Partition, now: int, pause_ms: int) -> bool:
        return partition.ordered_ms is None or now - partition.ordered_ms >= pause_ms
