"""Which data directories a cluster was formed of: agreed once, at its very first start.

Each node's directory draws a random id when it is made. ``rollcall up`` asks every coordinator for
it, writes them all down and hands them to everybody (*forms* the cluster): these are the first
voters. A coordinator that finds its directory empty later (another machine, a lost disk) learns
from the others that the cluster is formed, and joins as a replica that has nothing yet.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from actors.data_dir import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILE: Final = "formation.json"


def load(directory: Path) -> tuple[str, ...]:
    """Return what a node's directory says its cluster was formed of; nothing when it does not."""
    try:
        rows = json.loads((directory / FILE).read_text())["directories"]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OSError(f"{directory / FILE} can not be read ({error}): remove it.") from error
    return tuple(map(str, rows))


def save(directory: Path, directories: Sequence[str]) -> None:
    """Keep what the cluster was formed of."""
    write_whole(directory / FILE, json.dumps({"directories": list(directories)}) + "\n")
