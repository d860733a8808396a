"""The terminal of a command: whether a stream is one, and how wide it is."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO


def width_of_output() -> int | None:
    """Return the columns of the terminal that standard output is; None if it is none.

    The variable COLUMNS takes precedence, as for other programs.
    """
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a person sees what is written to a stream as it comes."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False
