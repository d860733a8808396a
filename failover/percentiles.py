"""Percentiles of measured values: one rule for metrics, benchmarks and drills."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def percentiles(values: Collection[float], shares: Sequence[float]) -> list[float]:
    """Return the value at each share (0.99 is p99); 0 for each where nothing was measured.

    A percentile is one of the values, the nearest in rank, never a value between two of them.
    """
    if not values:
        return [0.0] * len(shares)
    ordered = np.fromiter(values, np.float64, len(values))
    found: list[float] = np.quantile(ordered, shares, method="nearest").tolist()
    return found
