"""The version of Rollcall that this process runs."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

DISTRIBUTION: Final = "rollcall"


@cache
def installed_version() -> str:
    """Return the version of the installed package; "unknown" for code that is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"
