"""Counts the requests that simulated members send, and those that their own process sends late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LATE_MS: Final = 100
"""What is done later than this after it was due is late."""


def is_late(due_ms: float, now_ms: float) -> bool:
    """Whether what was due at one time and is done at the other is late."""
    return now_ms - due_ms > LATE_MS


@dataclass(slots=True)
class SendCounts:
    """How many requests were sent, and how many of them late.

    A member's first request is due when the plan starts the member, a heartbeat, a commit or a
    retry at the time that the member set its timer for; what follows an answer, or another step of
    the plan, at once.
    """

    sent: int = 0
    late: int = 0

    def count(self, due_ms: int | None, now_ms: int) -> None:
        """Count a request that is sent now; ``due_ms`` None: it was due now."""
        self.sent += 1
        self.late += due_ms is not None and is_late(due_ms, now_ms)
