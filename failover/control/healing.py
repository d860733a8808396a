"""Decide when a replica's log may be set aside: when the others have everything without it.

A node whose log is damaged, or an older copy, leaves the log untouched until this allows it. Then
the log is moved away and the node starts with an empty one, as a new replica.

Pure: the controller and the simulator call it with the rows that the nodes report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.partition_kinds import CATALOG, replicas
from storage.quorum import majority

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from failover.partitions.status import PartitionStatus

    Rows = Mapping[int, PartitionStatus]
    """By node: its report about one partition."""


def may_set_aside(
    node_id: int,
    placement: Sequence[Sequence[int]],
    reports: Mapping[int, Iterable[PartitionStatus]],
) -> bool:
    """Return whether every partition of a node is led, and safe without that node's data.

    ``placement`` holds the nodes of each partition of a kind, ``reports`` the report of each
    serving node about its replicas. The catalogue counts on every node.
    """
    rows: dict[int, dict[int, PartitionStatus]] = {}
    for reporter, told in reports.items():
        for row in told:
            rows.setdefault(row.partition, {})[reporter] = row
    placed = replicas(tuple(map(tuple, placement))).items()
    held = [number for number, nodes in placed if node_id in nodes]
    return all(is_safe_without(node_id, rows.get(n, {})) for n in (CATALOG.first, *held))


def is_safe_without(node_id: int, rows: Rows) -> bool:
    """Return whether a majority of a partition's voters has all committed data without this node.

    Only the leader of the newest epoch counts, and only voters that follow it in that epoch from
    the very directory that votes: a learner on the same node does not count.
    """
    leaders = [n for n, row in rows.items() if row.state == "Leader" and n != node_id]
    if not leaders:
        return False
    leader = max(leaders, key=lambda n: rows[n].epoch)
    led = rows[leader]
    if any(row.epoch > led.epoch for row in rows.values()):
        return False
    sound = [
        voter
        for voter in led.complete
        if voter != node_id
        and (row := rows.get(voter)) is not None
        and row.is_voter
        and row.epoch == led.epoch
        and row.leader == leader
        and row.state in ("Leader", "Follower")
    ]
    return len(sound) >= majority(len(led.voters))
