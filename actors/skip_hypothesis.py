"""Keeps imports out of the processes that a cluster consists of."""

from __future__ import annotations

import sys


def skip_hypothesis() -> None:
    """Let ``import hypothesis`` fail here, unless it has been imported.

    Where hypothesis is installed (in a developer's environment), kio imports it with its types: a
    third of a coordinator's start and 10 MB of its memory, for nothing.
    """
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]  # Python's way to say no
