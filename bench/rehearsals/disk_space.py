"""Whether the disk of a cluster that was started for a run has room: else it cannot write."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from failover.drills.checked import DrillError

if TYPE_CHECKING:
    from pathlib import Path

ROOM_BYTES: Final = 16 << 20
"""With less, servers may refuse what their members ask for."""


def check_room(directory: Path) -> None:
    """Raise DrillError if the disk that holds ``directory`` is nearly full."""
    if shutil.disk_usage(directory).free < ROOM_BYTES:
        raise DrillError(
            f"The disk of {directory} has less than {ROOM_BYTES >> 20} MiB of room, so that the"
            " cluster cannot write: make room there, or let TMPDIR name another directory."
        )
