"""For how long members of a group have been found unsettled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class UnsettledPeriod:
    """When members of a group began to be found unsettled, and when the last one was (Unix ms)."""

    since_ms: int = 0
    last_ms: int = -(1 << 62)

    def continues(self, now: int, pause_ms: int) -> int:
        """Note that a member is unsettled; return for how long the group has been so, in ms.

        It counts as another unrest when no member was found unsettled for ``pause_ms``.
        """
        if now - self.last_ms > pause_ms:
            self.since_ms = now
        self.last_ms = now
        return now - self.since_ms
