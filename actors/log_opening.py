"""Opens a coordinator's log whatever became of its disk: full, or damaged and to be healed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from storage.directory import set_aside
from storage.log import CorruptLogError, FullDiskError, UnknownRecordError
from storage.rocks import RocksLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.identity import LogIdentity

FULL_DISK_S: Final = 0.5
"""How often a full disk is looked at again."""


async def open_log(
    path: Path, owner: LogIdentity, replicas: int, say: Callable[[str], None]
) -> RocksLog:
    """Open or create a node's log; ``say`` is told in sentences what was found and done.

    Waits as long as the disk is full. A damaged log is set aside if other replicas can heal it.
    Raises :class:`storage.log.LogError`.
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
        except CorruptLogError as error:
            say(give_up(path, error, replicas))


def give_up(path: Path, error: CorruptLogError, replicas: int) -> str:
    """Set a damaged log aside, so that this node begins empty; return the sentence about it.

    Nothing is set aside when there are no other replicas: then somebody has to choose, and
    ``error`` is raised again. So it is when the bytes are whole and their meaning is not known,
    because then every replica has the same.
    """
    if replicas < 2 or isinstance(error, UnknownRecordError):
        raise error
    aside = set_aside(path)
    return (
        f"{error} This node has moved it to {aside.name} and begins empty: the other replicas "
        "of its partitions fill it again, if a majority of each has its log."
    )
