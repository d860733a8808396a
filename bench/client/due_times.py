"""When requests of an open load were due, and how many were sent late, or had to wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LATE_MS: Final = 100
"""What is done later than this after it was due is late."""


def is_late(due_ms: float, now_ms: float) -> bool:
    """Whether what was due at one time and is done at the other is late."""
    return now_ms - due_ms > LATE_MS


def next_due_ms(due_ms: int, interval_ms: int, now_ms: int) -> int:
    """Return the next time of a row of due times; who is late once does not shift the others.

    ``due_ms`` 0: the row begins now.
    """
    if not due_ms:
        return now_ms + interval_ms
    return due_ms + interval_ms * (1 + (now_ms - due_ms) // interval_ms)


@dataclass(slots=True)
class SendCounts:
    """How many requests were sent, how many of them late, and how many had been held back.

    A member's first request is due when the plan starts the member, a heartbeat, a commit or a
    retry at the time that the member set its timer for; what follows an answer, or another step of
    the plan, at once. Late is the fault of this machine. A commit or a heartbeat was held back if
    it was due while another request of its member had no answer yet, and so was sent late.
    """

    sent: int = 0
    late: int = 0
    held: int = 0

    def count(self, due_ms: int | None, now_ms: int, waited_ms: int | None = None) -> None:
        """Count a request that is sent now; ``due_ms`` None: it was due now.

        ``waited_ms``: since when it may have waited for the answer to another one.
        """
        self.sent += 1
        if due_ms is not None and is_late(due_ms, now_ms):
            self.late += 1
        elif waited_ms is not None and is_late(waited_ms, now_ms):
            self.held += 1
