"""The data directories that a cluster was formed from, fixed at its first start.

Each node's directory gets a random id when it is created. ``rollcall up`` asks every coordinator
for it, records all ids and sends them to every coordinator (*forms* the cluster): these are the
first voters. A coordinator that finds its directory empty later (another machine, a lost disk)
learns from the others that the cluster is formed, and joins as an empty replica.
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
    """Return the directories that a node has recorded; empty if it has recorded none.

    An unreadable file counts as none: the cluster's own file and the other nodes have them, too.
    """
    try:
        rows = json.loads((directory / FILE).read_text())["directories"]
        return tuple(map(str, rows))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("%s cannot be read (%s); asking the other nodes", directory / FILE, error)
        return ()


def agreed(directory: Path, told: Sequence[str]) -> tuple[str, ...]:
    """Return the directories that the node or the cluster's own file has recorded.

    Raises :class:`storage.log.ForeignLogError` if they differ.
    """
    found = load(directory)
    if found and told and found != tuple(told):
        raise ForeignLogError(
            f"{directory} belongs to another cluster. "
            "Put this node's own directory back, or use another data directory."
        )
    return found or tuple(told)


def save(directory: Path, directories: Sequence[str]) -> None:
    """Record the directories that the cluster was formed from."""
    write_whole(directory / FILE, json.dumps({"directories": list(directories)}) + "\n")
