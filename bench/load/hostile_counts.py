"""What hostile connections have done: frames by kind, answers, connections."""

from __future__ import annotations

from collections import Counter
from typing import Final

Address = tuple[str, int]

PATIENCE_S: Final = 5.0
"""A connection that waits longer (for a rebalance, say) is closed and opened again."""

REPEATED: Final = "repeated_heartbeats"
BY_SCHEMA: Final = "mutated_by_schema"
CHANGED_BYTES: Final = "mutated_bytes"
DRAWN, ROUGH_BYTES = "drawn_from_schemas", "rough_bytes"
TALKED: Final = "conversation_frames"
CONVERSATIONS: Final = "conversations"
KINDS: Final = (BY_SCHEMA, CHANGED_BYTES, DRAWN, ROUGH_BYTES, REPEATED, TALKED)
"""The kinds of frames, as in the names of counts: valid requests changed by their schema or in
their bytes, random messages of a schema, bytes that are no request, valid heartbeats, and requests
of conversations, changed or not."""


class HostileCounts:
    """Totals of the load.

    A frame counts when a server has handled it: it was answered, or its connection was closed
    because of it, or it timed out. Frames sent after that, and by connections that do not read, are
    not counted. ``distinct`` are the different frames that were sent, without the valid heartbeats;
    ``sent`` are all by kind, on connections that read, and the conversations; ``unread_bursts`` are
    those sent by connections that do not read. ``succeeded`` are the answers without an error in
    conversations, by API key.
    """

    def __init__(self) -> None:
        self.answered = self.closed_on_us = self.gave_up = self.connections = 0
        self.distinct = self.unread_bursts = 0
        self.sent: Counter[str] = Counter()
        self.succeeded: Counter[int] = Counter()

    @property
    def frames(self) -> int:
        """Frames that servers have handled."""
        return self.answered + self.closed_on_us + self.gave_up

    def shares(self) -> dict[str, float]:
        """Return the share of each kind in all frames that were sent."""
        by_kind = {
            kind: sum(sent for name, sent in self.sent.items() if name.startswith(kind))
            for kind in KINDS
        }
        total = max(sum(by_kind.values()), 1)
        return {kind: sent / total for kind, sent in by_kind.items()}
