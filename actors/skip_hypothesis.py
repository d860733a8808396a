"""Prevents the import of hypothesis in a cluster's processes."""

from __future__ import annotations

import sys


def skip_hypothesis() -> None:
    """Make ``import hypothesis`` fail in this process, unless it is already imported.

    Where hypothesis is installed (in a developer's environment), kio imports it with its types,
    which takes a third of a coordinator's start time and 10 MB of its memory.
    """
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]  # makes the import fail
