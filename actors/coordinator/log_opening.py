"""Opens a coordinator's log, also on a full disk, and classifies failures."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from storage.disk.rocks import RocksLog
from storage.log import (
    CorruptLogError,
    ForeignLogError,
    FullDiskError,
    StaleLogError,
    UnknownRecordError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.disk.identity import LogIdentity

FULL_DISK_S: Final = 0.5
"""How often to retry on a full disk."""

FAILED_S: Final = 5.0
"""How often to retry a log that cannot be opened for an unknown reason."""


async def open_log(path: Path, owner: LogIdentity, say: Callable[[str], None]) -> RocksLog:
    """Open or create a node's log; wait while the disk is full.

    ``say`` gets a message about the wait. Raises :class:`storage.log.LogError`.
    """
    is_waiting = False
    while True:
        try:
            return RocksLog.open(path, owner)
        except FullDiskError as error:
            if not is_waiting:
                say(f"{error} This node waits until there is space.")
            is_waiting = True
            await asyncio.sleep(FULL_DISK_S)


def may_pass(error: Exception) -> bool:
    """Whether the same log may open later: the error does not say that a file is wrong."""
    lasting = (CorruptLogError, StaleLogError, ForeignLogError)
    return not isinstance(error, lasting)


def can_be_healed(error: Exception, replicas: int) -> bool:
    """Whether the log can be restored from the other replicas.

    Not if there are none, and not if the bytes are intact but unknown: then every replica has the
    same bytes.
    """
    return (
        replicas > 1
        and isinstance(error, (CorruptLogError, StaleLogError))
        and not isinstance(error, UnknownRecordError)
    )
