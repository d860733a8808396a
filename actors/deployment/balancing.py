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


def balance(
    cluster: MovableCluster, bytes_per_s: int, say: Callable[[str], None], done: str = BALANCED
) -> None:
    """Move coordinators until the cluster is balanced; ``say`` gets a line for each, then ``done``.

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
    say(done)


def free_hosts(hosts: Sequence[str]) -> str:
    """Return in one sentence that nothing is left on hosts."""
    which = f"host {hosts[0]} holds" if len(hosts) == 1 else f"hosts {', '.join(hosts)} hold"
    return f"The {which} no coordinator and can be taken away."


def no_room(crowded: Sequence[int], without: Sequence[str]) -> str:
    """Return in one sentence that hosts must stay; empty if nothing is crowded without them."""
    if not crowded:
        return ""
    more = f" and of {len(crowded) - 1} more" if len(crowded) > 1 else ""
    return (
        f"There is not enough room without {', '.join(without)}: several replicas of "
        f"{title_of(crowded[0])}{more} would be on one host. Add a host to the Ray cluster first, "
        "or allow it with --share-hosts."
    )


def cannot_be_left(
    without: Sequence[str], living: Mapping[str, object], homes: Sequence[str]
) -> str:
    """Return in one sentence why coordinators cannot leave these hosts; empty if they can.

    ``homes`` are the hosts of the coordinators, ``living`` the hosts that can run some.
    """
    for host in without:
        if host in living:
            continue
        if host not in homes:
            return f"There is no host {host} in the Ray cluster."
        return (
            f"The host {host} is away, so its data cannot be copied. `rollcall replace NODE` "
            "starts each of its coordinators on another host."
        )
    if not {*living} - {*without}:
        return "No other host is in the Ray cluster. Add one first with `ray start --address`."
    return ""


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
