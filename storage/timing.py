"""How long replicas wait, in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times of one partition's replication; all replicas of a partition use the same.

    A leader may answer for ``lease_ms`` after it sent a message that a majority acknowledged. A
    follower that acknowledged one votes for nobody else for ``promise_ms`` after it came.
    """

    heartbeat_ms: int = 50  # replica.heartbeat.interval.ms
    lease_ms: int = 150  # replica.lease.ms
    election_min_ms: int = 1_000  # replica.election.timeout.ms
    election_max_ms: int = 2_000

    @property
    def rest_ms(self) -> int:
        """How often a leader that has nothing to say or answer gives a sign of life.

        Its lease runs out meanwhile; its followers must not take it for dead.
        """
        return max(self.heartbeat_ms, self.election_min_ms // 5)

    @property
    def promise_ms(self) -> int:
        """The lease and a margin: clocks may be 5 % fast or slow, and are read in whole ms."""
        return self.lease_ms + self.lease_ms // 8 + 2
