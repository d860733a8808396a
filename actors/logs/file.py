"""The log file of a process."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Final

from actors.logs.line_format import FORMATS, TEXT

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES_MAX: Final = 10_000_000
OLD_FILES: Final = 3


def log_to_file(path: Path, line_format: str = TEXT) -> None:
    """Write this process's log lines from INFO on to a rotating file.

    ``line_format`` is one of :data:`actors.logs.line_format.FORMATS`. The file's name without
    ``.log`` names the process in lines that are JSON.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = RotatingFileHandler(
        path,
        maxBytes=FILE_BYTES_MAX,
        backupCount=OLD_FILES,
        encoding="utf-8",
        errors="backslashreplace",
    )
    handler.setFormatter(FORMATS[line_format](path.stem))
    root = logging.getLogger("rollcall")
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    root.propagate = False
