"""Durations counted in buckets, as Prometheus and OpenTelemetry want them.

Values are counted on the event loop; exporters may read them in any thread.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FAST_S: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""The bounds of buckets for what takes milliseconds."""

SLOW_S: Final = (
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0,
)  # fmt: skip
"""The bounds of buckets for what waits for members."""

SERIES_MAX: Final = 128
"""The limit of combinations of labels of one histogram; others are not counted."""


class Histogram:
    """How often something took how long, for each combination of labels.

    ``record`` also gets each value in seconds, with its labels: the export over OTLP sets it.
    """

    def __init__(self, bounds_s: Sequence[float] = FAST_S) -> None:
        self.record: Callable[[float, tuple[str, ...]], None] | None = None
        self.bounds_s = tuple(bounds_s)
        self._series: dict[tuple[str, ...], _Series] = {}

    def add(self, seconds: float, *labels: str) -> None:
        """Count a duration."""
        series = self._series.get(labels)
        if series is None:
            if len(self._series) >= SERIES_MAX:
                return
            series = self._series[labels] = _Series(len(self.bounds_s) + 1)
        series.counts[bisect_left(self.bounds_s, seconds)] += 1
        series.sum_s += seconds
        if self.record is not None:
            self.record(seconds, labels)

    def status(self) -> list[dict[str, Any]]:
        """Return each series: its labels, sum, and how many values each bound covers."""
        return [
            {
                "labels": list(labels),
                "sum": round(series.sum_s, 6),
                "buckets": _cumulated(self.bounds_s, tuple(series.counts)),
            }
            for labels, series in list(self._series.items())
        ]


class _Series:
    __slots__ = ("counts", "sum_s")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.sum_s = 0.0


def _cumulated(bounds_s: Sequence[float], counts: Sequence[int]) -> dict[str, int]:
    """Return the buckets by their bounds as text, each with all values up to it."""
    total = 0
    buckets = {}
    for bound, count in zip([*map(str, bounds_s), "+Inf"], counts, strict=True):
        total += count
        buckets[bound] = total
    return buckets
