"""How long replicas wait, in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times of one partition's replication; all its replicas use the same.

    A leader may answer for ``lease_ms`` after it sent a message that a majority acknowledged. A
    follower that acknowledges a message votes for no other node for ``promise_ms`` after it came.
    """

    heartbeat_ms: int = 50  # replica.heartbeat.interval.ms
    lease_ms: int = 150  # replica.lease.ms
    election_min_ms: int = 1_000  # replica.election.timeout.ms
    election_max_ms: int = 2_000

    @property
    def rest_ms(self) -> int:
        """The heartbeat interval of an idle leader: nothing to replicate, no requests to answer.

        Its lease runs out in between; its followers must not consider it dead.
        """
        return max(self.heartbeat_ms, self.election_min_ms // 5)

    @property
    def promise_ms(self) -> int:
        """The lease plus a margin: clocks may be 5 % fast or slow, and are read in whole ms."""
        return self.lease_ms + self.lease_ms // 8 + 2
