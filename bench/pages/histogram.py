"""Histograms of durations over time: buckets that grow with the value, as in an HDR histogram.

A bucket is at most 1/32 of its value wide, so millions of values need a few thousand counts, and a
percentile is exact to 3 %. The largest value is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.pages.steps import Floats, Integers

PARTS: Final = 32
"""Buckets for each doubling of the value."""

DOUBLINGS: Final = 28
"""The largest bucket ends above 2**32 ms; larger values count in it."""

BUCKETS: Final = PARTS * DOUBLINGS


class StepHistograms:
    """One histogram for each step of time."""

    def __init__(self, at: Floats) -> None:
        self._at = at
        self._counts = np.zeros((len(at) - 1, BUCKETS), np.int64)
        self._largest = np.zeros(len(at) - 1, np.int64)

    def add(self, moments_ms: Integers, values_ms: Integers) -> None:
        """Count each value in the step of its moment; moments outside of all steps are left out."""
        steps = np.searchsorted(self._at, moments_ms, side="right") - 1
        is_in = (steps >= 0) & (moments_ms < self._at[-1])
        steps, values_ms = steps[is_in], np.maximum(values_ms[is_in], 0)
        np.add.at(self._counts, (steps, bucket_of(values_ms)), 1)
        np.maximum.at(self._largest, steps, values_ms)

    def percentile(self, share: float) -> list[int | None]:
        """Return the percentile of each step, rounded up to its bucket's end; None: no values."""
        sums = np.cumsum(self._counts, axis=1)
        totals = sums[:, -1]
        wanted = np.maximum(np.ceil(totals * share), 1)
        buckets = (sums < wanted[:, None]).sum(axis=1)
        ends = np.minimum(bucket_ends()[np.minimum(buckets, BUCKETS - 1)], self._largest)
        return _or_none(ends, totals)

    def largest(self) -> list[int | None]:
        """Return the largest value of each step."""
        return _or_none(self._largest, self._counts.sum(axis=1))


def bucket_of(values: Integers) -> Integers:
    """Return the bucket of each value, at least 0; values below 64 have buckets of their own."""
    doublings = np.maximum(np.frexp(values.astype(np.float64))[1] - 6, 0)
    found: Integers = np.minimum(doublings * PARTS + (values >> doublings), BUCKETS - 1)
    return found


def bucket_ends() -> Integers:
    """Return the largest value of each bucket."""
    buckets = np.arange(BUCKETS, dtype=np.int64)
    doublings = np.maximum(buckets // PARTS - 1, 0)
    ends: Integers = ((buckets - doublings * PARTS + 1) << doublings) - 1
    return ends


def _or_none(values: Integers, totals: Integers) -> list[int | None]:
    pairs: Sequence[tuple[int, int]] = [*zip(values.tolist(), totals.tolist(), strict=True)]
    return [value if total else None for value, total in pairs]
