"""The files that pages need, as they are in the package: scripts, styles, templates."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

UPLOT: Final = ("uPlot.iife.min.js", "uPlot.min.css", "uPlot.LICENSE")
"""The library of charts, which the pages of reports have, too."""


def directory(name: str) -> Traversable:
    """Return ``assets`` or ``templates``."""
    return resources.files(__package__) / name


def asset(name: str) -> str:
    """Return the text of an asset."""
    return directory("assets").joinpath(name).read_text("utf-8")
