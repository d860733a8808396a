"""``rollcall balance``: moves coordinators to other hosts, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.errors import FailureError
from actors.waiting import is_answered, poll
from failover.partition_kinds import title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from failover.control.balancing import CoordinatorMove

IN_SYNC_S: Final = 600.0
"""How long it may take after a move until all replicas are in sync again."""

LOOK_S: Final = 1.0
BALANCED: Final = "The cluster is balanced."
RUNNING: Final = "Running"


class MovableCluster(Protocol):
    """The cluster as the command sees it; every call raises CommandError if it fails."""

    def moves(self) -> Sequence[CoordinatorMove]:
        """Return the moves that would balance it; raises if nothing may be moved now."""

    def move(self, node_id: int, host: str, bytes_per_s: int) -> None:
        """Move a coordinator; return when it was created on its new host."""


def balance(cluster: MovableCluster, bytes_per_s: int, say: Callable[[str], None]) -> None:
    """Move coordinators until the cluster is balanced; ``say`` gets a line for each of them.

    All replicas of all partitions are in sync before each move, and at the end. If the caller ends
    in between, the controller completes the move that is under way, and begins no other.
    """
    moves = cluster.moves()
    while moves:
        say(sentence(moves[0]))
        cluster.move(moves[0].node_id, moves[0].host, bytes_per_s)
        moves = poll(
            cluster.moves, IN_SYNC_S, is_done=is_answered, every_s=LOOK_S, retry=(FailureError,)
        )
    say(BALANCED)


def sentence(move: CoordinatorMove) -> str:
    """Return what a move does, and why."""
    return f"coordinator {move.node_id} moves from {move.home} to {move.host}: {move.reason}"


def obstacle(status: Mapping[str, Any]) -> str:
    """Return in one sentence why no coordinator may be moved now; empty if one may."""
    found = [
        f"coordinator {row['node_id']} is {row['state']}"
        for row in status["coordinators"]
        if row["state"] != RUNNING
    ]
    found += [f"{title_of(number)} is under-replicated" for number in status["under_replicated"]]
    if not found:
        return ""
    return (
        "Coordinators are moved only while all of them run and all replicas are in sync, but "
        f"{found[0]}. Try again when `rollcall status` no longer shows that."
    )


def offer(moves: Sequence[CoordinatorMove], homes: Sequence[str]) -> str:
    """Return in one sentence that the cluster could be balanced; empty if it is.

    ``homes`` are the hosts of the coordinators.
    """
    if not moves:
        return ""
    idle = sorted({move.host for move in moves} - {*homes})
    whom = "1 coordinator" if len(moves) == 1 else f"{len(moves)} coordinators"
    hosts = "Hosts without coordinators: " + ", ".join(idle) if idle else "Hosts are uneven"
    return f"{hosts}; `rollcall balance` moves {whom}."
