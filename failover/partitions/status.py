"""One partition's replica as operators and the controller see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from failover.partitions.partition import Partition


FOREVER_MS: Final = 3_600_000
"""A leader without peers has a lease that never ends; it is reported as an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition as ``rollcall status`` shows it; the catalogue is partition -1.

    ``leader`` is the node that this replica believes to lead (-1: none). ``voters``, ``learners``,
    ``in_sync`` and ``complete`` are node ids; only the leader knows the last two. ``complete`` are
    the voters that it has heard from recently and that have every committed record on disk.
    ``is_voter`` is whether this very replica votes, according to its own log. ``lease_ms`` is how
    long this leader may still answer, 0 when it may not (an idle leader holds no lease), and an
    hour when it has no peers. ``waiting_ms`` is how long committed answers have waited for a lease.
    ``has_groups`` is False when this replica holds neither groups nor committed offsets, so that a
    leader change affects no client. ``is_slow`` is whether this node's disk syncs too slowly for it
    to lead well (:mod:`failover.sync_times`).
    """

    partition: int
    state: str  # Loading, Follower, Leader
    epoch: int
    leader: int
    log_start_offset: int
    applied_offset: int
    high_watermark: int
    end_offset: int
    voters: tuple[int, ...]
    learners: tuple[int, ...]
    in_sync: tuple[int, ...]
    is_voter: bool = True
    lease_ms: int = 0
    waiting_ms: int = 0
    complete: tuple[int, ...] = ()
    has_groups: bool = True
    is_slow: bool = False


def status_of(partition: Partition, now: int, *, is_slow: bool = False) -> PartitionStatus:
    """Describe a partition's replica."""
    replica = partition.replica
    unleased_from_ms = partition.replies.unleased_from_ms
    return PartitionStatus(
        partition=partition.number,
        state=partition.state,
        epoch=replica.epoch,
        leader=replica.leader_id,
        log_start_offset=partition.start_offset,
        applied_offset=partition.applied_offset,
        high_watermark=replica.high_watermark,
        end_offset=replica.end_offset,
        voters=tuple(voter.node_id for voter in replica.voters),
        learners=tuple(learner.node_id for learner in replica.learners),
        in_sync=tuple(replica.in_sync),
        is_voter=partition.is_voter,
        complete=tuple(replica.complete),
        has_groups=partition.machine.has_groups,
        is_slow=is_slow,
        lease_ms=max(min(replica.lease_until_ms - now, FOREVER_MS), 0),
        waiting_ms=0 if unleased_from_ms is None else now - unleased_from_ms,
    )
