"""The statuses in a StreamsGroupHeartbeat response (KIP-1071)."""

from __future__ import annotations

from typing import Final

STALE_TOPOLOGY: Final = 0
"""The member's topology epoch is lower than the group's."""
MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3
SHUTDOWN_APPLICATION: Final = 4
ASSIGNMENT_DELAYED: Final = 5
"""A new target assignment is pending (KIP-1263)."""
MISSING_CLIENT_TAGS: Final = 6
"""The member lacks tags by which standby tasks are placed; told since version 1."""


class TopologyProblem(Exception):  # noqa: N818 - a state of the group, not an error of a request
    """Why a topology cannot run yet: a status, and its detail."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
