"""Moves leadership away from a process that is stopping or whose disk is full, repeatedly.

It also moves leadership away from a leader that has had committed answers but no lease to send them
for as long as an election takes: it hears its peers, so it would never step down, but it hears them
too late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.partition_kinds import kind_of, title_of
from storage.replica import Role

if TYPE_CHECKING:
    from collections.abc import Collection

    from failover.host_state import HostState
    from failover.partitions.partition import Partition
    from storage.replica import Replica

DRAIN_INTERVAL_MS: Final = 200
"""How often to check whether something is still led here."""

LOG_INTERVAL_MS: Final = 60_000
"""How often to log that a partition has no lease."""


class LeadershipDrain:
    """Whether to move away what is led here. ``due_ms``: when to check next."""

    def __init__(self, state: HostState) -> None:
        self._state = state
        self._is_draining = False
        self._disk_is_full = False
        self._told: dict[int, int] = {}
        self.due_ms: int | None = None

    @property
    def draining(self) -> bool:
        """Whether this process is stopping."""
        return self._is_draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._is_draining = draining
        self.due_ms = 0 if draining or self._disk_is_full else None

    @property
    def disk_is_full(self) -> bool:
        """Whether drained writes wait for disk space.

        While they do, requests that wait for them are refused with a retriable error, partitions
        led here are transferred to a replica with space, if there is one, and nothing is loaded:
        the log does not yet show what those writes remove.
        """
        return self._disk_is_full

    @disk_is_full.setter
    def disk_is_full(self, is_full: bool) -> None:
        if is_full == self._disk_is_full:
            return
        self._disk_is_full = is_full
        self.due_ms = 0 if is_full or self._is_draining else None
        for number, partition in self._state.all.items():
            partition.stuck = kind_of(number).full_disk if is_full else None
            partition.refuse_waiting(self._state.effects)
        self._state.schedule.touch_all()

    def tick(self, now: int) -> None:
        """Transfer what is led here, if it is due."""
        if self.due_ms is None or self.due_ms > now:
            return
        self.due_ms = now + DRAIN_INTERVAL_MS
        for partition in self._state.all.values():
            replica = partition.replica
            if replica.role is Role.LEADER:
                fit = _with_room(replica) if self._disk_is_full else _near(replica)
                wanted = self._state.identity.nodes_of(partition.number)
                others = [node for node in wanted if node in fit]
                if others:
                    self._state.schedule.touch(partition.number)
                    replica.transfer_to(others[0], now)

    def transfer_unleased(self, partition: Partition, now: int) -> None:
        """Transfer a partition whose answers have waited too long for the lease; retry later.

        Each attempt asks another in-sync replica, in turn.
        """
        assert partition.replies.unleased_from_ms is not None, "answers wait"
        waited_ms = now - partition.replies.unleased_from_ms
        attempt = waited_ms // DRAIN_INTERVAL_MS
        partition.replies.silent_at_ms = now + DRAIN_INTERVAL_MS
        replica, number = partition.replica, partition.number
        wanted = self._state.identity.nodes_of(number)
        others = [node for node in wanted if node in _near(replica)]
        if others:
            replica.transfer_to(others[attempt % len(others)], now)
        if number not in self._told or now - self._told[number] >= LOG_INTERVAL_MS:
            self._told[number] = now
            what = "it is handed over" if others else "no other replica is in sync to take it"
            self._state.effects.notes.append(
                f"{title_of(number)} has had no lease for {waited_ms} ms and answers nobody: {what}"
            )


def _with_room(replica: Replica) -> Collection[int]:
    """Return the peers with space on their disk while ours has none; check them later again."""
    replica.ask_for_room()
    return replica.peers_with_space


def _near(replica: Replica) -> set[int]:
    """Return the other voters that are nearly in sync with a leader."""
    voters = {voter.node_id for voter in replica.voters}
    return voters & set(replica.in_sync[1:])
