"""How long members of a group have been unsettled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class UnsettledPeriod:
    """When members of a group were first found unsettled, and when last (Unix ms)."""

    since_ms: int = 0
    last_ms: int = -(1 << 62)

    def continues(self, now: int, pause_ms: int) -> int:
        """Note that a member is unsettled; return for how long the group has been so, in ms.

        A new period begins when no member was found unsettled for ``pause_ms``.
        """
        if now - self.last_ms > pause_ms:
            self.since_ms = now
        self.last_ms = now
        return now - self.since_ms
