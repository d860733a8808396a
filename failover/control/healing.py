"""Says when a replica's log may be set aside: when the others have everything without it.

A node whose log is damaged, or an older copy of itself, waits with its log untouched until this
says so. Then the log is moved away and the node begins with an empty one, as another replica.

Pure: the controller and the simulator ask it with the rows that the nodes report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.identity import CATALOG_PARTITION
from storage.quorum import majority

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from failover.partitions.status import PartitionStatus

    Rows = Mapping[int, PartitionStatus]
    """By node: what each says of one partition."""


def may_set_aside(
    node_id: int,
    placement: Sequence[Sequence[int]],
    reports: Mapping[int, Iterable[PartitionStatus]],
) -> bool:
    """Say whether every partition of a node is led, and safe without what that node has.

    ``placement`` holds the nodes of each partition, ``reports`` what each node that serves says of
    its replicas. The catalogue counts on every node.
    """
    rows: dict[int, dict[int, PartitionStatus]] = {}
    for reporter, told in reports.items():
        for row in told:
            rows.setdefault(row.partition, {})[reporter] = row
    held = [number for number, nodes in enumerate(placement) if node_id in nodes]
    return all(is_safe_without(node_id, rows.get(n, {})) for n in (CATALOG_PARTITION, *held))


def is_safe_without(node_id: int, rows: Rows) -> bool:
    """Say whether a majority of a partition's voters, without this node, has all that is committed.

    Only the leader of the newest epoch is believed, and of the voters only those that follow it
    there with the very directory that votes: a learner on the same node counts for nothing.
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
