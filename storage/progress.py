"""A leader's knowledge of one peer: how far its log is, and what is on its way to it."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.batch import RawRecord
    from storage.log import Snapshot
    from storage.messages import ReplicaKey

NEVER_MS = -(1 << 62)
"""The time of the last answer of a peer that has never answered."""

MESSAGE_BYTES_MAX = 1 << 20
IN_FLIGHT_BYTES_MAX = 4 << 20
IN_FLIGHT_MESSAGES_MAX = 64
"""The most messages in flight to a peer that does not answer."""


class ReplicationMode(StrEnum):
    """How a peer is fed.

    PROBE: one message at a time until the logs are known to agree. STREAM: as fast as it can take.
    SNAPSHOT: first the state, when the log no longer reaches back to the end of the peer's log.
    """

    PROBE = "probe"
    STREAM = "stream"
    SNAPSHOT = "snapshot"


class SnapshotTransfer:
    """One snapshot under way: one slice at a time, each kept until it is acknowledged."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        self.snapshot = snapshot
        self.position = 0
        self.records: tuple[RawRecord, ...] = ()
        self.sent_ms = NEVER_MS
        self.heard_ms = now
        self._slices: Iterator[tuple[RawRecord, ...]] = snapshot.slices
        self._next: tuple[RawRecord, ...] | None = next(self._slices, ())
        self._advance()

    @property
    def is_last(self) -> bool:
        """Whether the current slice is the last one."""
        return self._next is None

    def acknowledged(self, next_position: int, now: int) -> None:
        """Go on to the next slice when the current one has arrived."""
        self.heard_ms = now
        if next_position == self.position + 1 and not self.is_last:
            self.position = next_position
            self.sent_ms = NEVER_MS
            self._advance()

    def _advance(self) -> None:
        self.records = self._next or ()
        self._next = next(self._slices, None)


class Progress:
    """One peer, as its leader sees it. Offsets are end offsets, exclusive."""

    __slots__ = (
        "acked_ms",
        "awaits_answer",
        "beat_due",
        "in_flight",
        "in_flight_bytes",
        "is_up",
        "key",
        "match",
        "mode",
        "next_offset",
        "transfer",
    )

    def __init__(self, key: ReplicaKey, next_offset: int, is_up: bool) -> None:
        self.key = key
        self.next_offset = next_offset
        """Where the next message begins."""
        self.match = 0
        """The end offset of the part of the leader's log that the peer has on disk."""
        self.acked_ms = NEVER_MS
        """The leader's time in the newest message that the peer answered in this epoch."""
        self.mode = ReplicationMode.PROBE
        self.is_up = is_up
        self.awaits_answer = False
        self.beat_due = True
        self.in_flight: deque[tuple[int, int]] = deque()
        self.in_flight_bytes = 0
        self.transfer: SnapshotTransfer | None = None

    @property
    def has_room(self) -> bool:
        """Whether another message with batches may be sent."""
        return (
            self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
            and len(self.in_flight) < IN_FLIGHT_MESSAGES_MAX
        )

    def sent(self, end_offset: int, size: int) -> None:
        """Note batches sent up to ``end_offset``."""
        if self.mode is ReplicationMode.PROBE:
            self.awaits_answer = True
            return
        self.next_offset = end_offset
        self.in_flight.append((end_offset, size))
        self.in_flight_bytes += size

    def accepted(self, end_offset: int) -> bool:
        """Note that the peer's log equals ours before ``end_offset``; return whether that is new.

        The answer may be an old one: it never moves anything back.
        """
        if self.mode is ReplicationMode.SNAPSHOT:
            if self.transfer is not None and end_offset < self.transfer.snapshot.offset:
                return False
            self.probe(end_offset)
        advanced = end_offset > self.match
        if advanced:
            self.match = end_offset
        if self.mode is ReplicationMode.PROBE:
            self.mode = ReplicationMode.STREAM
            self.awaits_answer = False
            self.next_offset = self.match
        elif self.next_offset < self.match:
            self.next_offset = self.match
        in_flight = self.in_flight
        while in_flight and in_flight[0][0] <= end_offset:
            self.in_flight_bytes -= in_flight.popleft()[1]
        return advanced

    def probe(self, next_offset: int) -> None:
        """Find out again where the logs agree: messages on their way to the peer may be lost."""
        self.mode = ReplicationMode.PROBE
        self.next_offset = next_offset
        self.awaits_answer = False
        self.transfer = None
        self.in_flight.clear()
        self.in_flight_bytes = 0

    def install(self, transfer: SnapshotTransfer) -> None:
        """Send the state instead of the log."""
        self.probe(self.next_offset)
        self.mode = ReplicationMode.SNAPSHOT
        self.transfer = transfer
