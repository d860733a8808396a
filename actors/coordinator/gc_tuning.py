"""Keeps Python's garbage collector from looking at the same long-lived objects again and again."""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (2_000, 2_500, 1_000)
"""Nearly nothing here is cyclic; by default, looking for it takes a sixth of a large join. A round
begins after few new objects: it takes a microsecond for each, in which nobody is answered."""


def freeze_heap() -> None:
    """Keep all that is there now out of the collector's rounds, and make them rare."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
