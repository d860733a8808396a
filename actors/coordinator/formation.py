"""Which data directories a cluster was formed of: agreed once, at its very first start.

Each node's directory draws a random id when it is made. ``rollcall up`` asks every coordinator for
it, writes them all down and hands them to everybody (*forms* the cluster): these are the first
voters. A coordinator that finds its directory empty later (another machine, a lost disk) learns
from the others that the cluster is formed, and joins as a replica that has nothing yet.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

from actors.cluster.data_dir import write_whole
from storage.log import ForeignLogError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_log = logging.getLogger("rollcall.coordinator")

FILE: Final = "formation.json"


def load(directory: Path) -> tuple[str, ...]:
    """Return what a node's directory says its cluster was formed of; nothing when it does not.

    A file that can not be read says nothing: the cluster's own file and the other nodes know, too.
    """
    try:
        rows = json.loads((directory / FILE).read_text())["directories"]
        return tuple(map(str, rows))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("%s can not be read (%s); the others are asked", directory / FILE, error)
        return ()


def agreed(directory: Path, told: Sequence[str]) -> tuple[str, ...]:
    """Return what the cluster was formed of, as the directory and the cluster's own file say it.

    Raises :class:`storage.log.ForeignLogError` when they differ.
    """
    found = load(directory)
    if found and told and found != tuple(told):
        raise ForeignLogError(
            f"{directory}: its cluster was formed of other directories than this one; put this "
            "node's own directory back, or use another data directory."
        )
    return found or tuple(told)


def save(directory: Path, directories: Sequence[str]) -> None:
    """Keep what the cluster was formed of."""
    write_whole(directory / FILE, json.dumps({"directories": list(directories)}) + "\n")
