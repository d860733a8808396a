"""Detect that a partition cannot elect a leader because too many of its logs are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.partition_kinds import title_of
from storage.quorum import majority

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from failover.partitions.status import PartitionStatus


def lost_majority(nodes: Sequence[int], rows: Mapping[int, PartitionStatus]) -> str | None:
    """Return a message if no majority of a partition's replicas has its log; None if all is well.

    ``nodes`` hold the partition, ``rows`` are the running nodes' reports about it. A replica that
    is no voter started with an empty directory: its disk was lost, or its log was damaged and set
    aside. As long as there is a leader, such replicas are refilled and no action is needed.
    """
    if not rows or any(row.leader >= 0 for row in rows.values()):
        return None
    empty = sorted(node_id for node_id, row in rows.items() if not row.is_voter)
    if len(nodes) - len(empty) >= majority(len(nodes)):
        return None
    number = next(iter(rows.values())).partition
    named = (
        f"that of node {empty[0]} is" if len(empty) == 1 else f"those of nodes {_list(empty)} are"
    )
    return (
        f"{title_of(number)} has no majority of readable logs: {named} empty; stop the cluster and"
        " put back the directories that were there (one that was set aside ends in .corrupt-1, …)."
    )


def _list(nodes: Sequence[int]) -> str:
    return f"{', '.join(map(str, nodes[:-1]))} and {nodes[-1]}"
