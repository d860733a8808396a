"""One partition's replica as people and the controller see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from failover.partition import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition as ``rollcall status`` shows it; the catalogue is partition -1.

    ``leader`` is the node that this replica takes for the leader (-1: none). ``voters``,
    ``learners``, ``in_sync`` and ``complete`` are node ids; the last two are known to the leader
    only. ``complete`` are the voters that it has heard of late and that have on disk everything
    that is committed. ``is_voter`` tells whether this very replica counts, as far as its own log
    says.
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
    complete: tuple[int, ...] = ()


def status_of(partition: Partition) -> PartitionStatus:
    """Describe a partition's replica."""
    replica = partition.replica
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
    )
