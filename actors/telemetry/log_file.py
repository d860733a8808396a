"""The log file of a process."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES_MAX: Final = 10_000_000
OLD_FILES: Final = 3


def log_to_file(path: Path) -> None:
    """Write this process's log lines from INFO on to a rotating file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = RotatingFileHandler(
        path, maxBytes=FILE_BYTES_MAX, backupCount=OLD_FILES, encoding="utf-8"
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger("rollcall")
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    root.propagate = False
