"""Files with results: where they go is checked before the work, and nobody finds half of one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def result_path(text: str) -> Path:
    """Return where to write a file, before the work is done; for ``argparse``."""
    path = Path(text)
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text} cannot be written: there is no such directory")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a directory: name a file")
    return path


def write_aside(path: Path, text: str) -> None:
    """Write a file under another name, then give it its own.

    A link, a device or a pipe is written to. Raises OSError, whose text is one sentence.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_text(text, "utf-8")
        else:
            _write_and_rename(path, text)
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror}.") from None


def write_all(*writes: Callable[[], None]) -> None:
    """Write several files, each also if another one cannot be; then raise the first OSError."""
    failures = []
    for write in writes:
        try:
            write()
        except OSError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _write_and_rename(path: Path, text: str) -> None:
    aside = path.with_name(f"{path.name}.partial")
    try:
        aside.write_text(text, "utf-8")
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
