"""Steps of time: how long they are, and what things that last amount to in each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

ROUND_MS: Final = (
    100, 200, 250, 500, 1_000, 2_000, 2_500, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000,
    300_000, 600_000,
)  # fmt: skip
"""How long a step can be: 144 of the longest are a day, which is the longest run."""

DIGITS: Final = 2


def step_ms(duration_ms: int, steps_max: int) -> int:
    """Return the length of a step, so that there are at most about ``steps_max``."""
    return next((each for each in ROUND_MS if each * steps_max >= duration_ms), ROUND_MS[-1])


def edges(duration_ms: int, step: int) -> Floats:
    """Return where steps begin and where the last one ends; that may be a short one."""
    count = max(1, -(-duration_ms // step))
    return np.minimum(np.arange(count + 1, dtype=np.float64) * step, max(duration_ms, 1))


def mean_count(spans: Iterable[tuple[int, int]], at: Floats) -> Floats:
    """Return how many of ``spans`` (began, ended) there were at a time, on average in each step."""
    pairs = np.array([*spans], np.float64).reshape(-1, 2)
    pairs = pairs[pairs[:, 1] > pairs[:, 0]]
    lasted = _since(pairs[:, 0], at) - _since(pairs[:, 1], at)
    return np.diff(lasted) / np.diff(at)


def _since(moments: Floats, at: Floats) -> Floats:
    """Return at each time how long ago the moments before it were, summed."""
    ordered = np.sort(moments)
    sums = np.concatenate(([0.0], np.cumsum(ordered)))
    before = np.searchsorted(ordered, at)
    return np.asarray(before * at - sums[before], np.float64)


def counted(moments: Sequence[int], at: Floats) -> Integers:
    """Return how many moments were in each step; those outside are not counted."""
    counts, _ = np.histogram(np.asarray(moments, np.float64), bins=at)
    return counts.astype(np.int64)


def rounded(values: Floats) -> list[float]:
    """Return values as they are written."""
    return [round(value, DIGITS) for value in values.tolist()]
