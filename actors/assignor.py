"""An assignor worker: a process that computes assignments, so that no event loop has to wait.

The consumer protocol of KIP-848 gives it work; classic groups compute their assignments in their
own members, so for now a worker waits.
"""

from __future__ import annotations

import os


class Assignor:
    """One worker. ``group.coordinator.background.threads`` says how many there are."""

    async def pid(self) -> int:
        """Return the process that would do the work."""
        return os.getpid()
