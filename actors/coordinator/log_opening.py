"""Opens a coordinator's log whatever became of its disk: full, or damaged and to be healed."""

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
"""How often a full disk is looked at again."""

FAILED_S: Final = 5.0
"""How often a log is tried again that can not be opened, though nothing says that it is wrong."""


async def open_log(path: Path, owner: LogIdentity, say: Callable[[str], None]) -> RocksLog:
    """Open or create a node's log, and wait for that as long as the disk is full.

    ``say`` is told so in a sentence. Raises :class:`storage.log.LogError`.
    """
    is_waiting = False
    while True:
        try:
            return RocksLog.open(path, owner)
        except FullDiskError as error:
            if not is_waiting:
                say(f"{error} This node starts then.")
            is_waiting = True
            await asyncio.sleep(FULL_DISK_S)


def may_pass(error: Exception) -> bool:
    """Say whether the same log may open later: no file is wrong, as far as the error says."""
    lasting = (CorruptLogError, StaleLogError, ForeignLogError)
    return not isinstance(error, lasting)


def can_be_healed(error: Exception, replicas: int) -> bool:
    """Say whether a copy of the other replicas can take the place of a log.

    Not when there are no others, and not when the bytes are whole but their meaning is not known:
    then every replica has the same.
    """
    return (
        replicas > 1
        and isinstance(error, (CorruptLogError, StaleLogError))
        and not isinstance(error, UnknownRecordError)
    )
