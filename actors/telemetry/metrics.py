"""A coordinator's background work in numbers: KIP-1263's metrics under Kafka's names, and ours.

Values are counted on the event loop; exporters may read them in any thread.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

from actors.metrics.names import (
    FAILURES,
    GROUP_TYPES,
    IDLE_RATIO,
    PERCENTILES,
    PROCESSING_TIME_MS,
    QUEUE_TIME_MS,
    RUNS,
    RUNS_IN_PLACE,
    RUNS_RETRIED,
)
from failover.percentiles import percentiles
from protocol.groups.facts import TargetAssigned, TargetAssignmentFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.groups.facts import Fact

WINDOW_S: Final = 60.0
"""The window of percentiles and ratios: the last minute."""

SAMPLES_MAX: Final = 4_096

MODERN: Final = tuple(row.group_type for row in GROUP_TYPES if row.group_type != "classic")
"""The types of groups whose assignments are computed here."""


class Samples:
    """The measurements of the last ``window_s``, in milliseconds; at most ``samples_max``."""

    def __init__(
        self,
        clock_s: Callable[[], float] = time.monotonic,
        window_s: float = WINDOW_S,
        samples_max: int = SAMPLES_MAX,
    ) -> None:
        self._clock_s = clock_s
        self._window_s = window_s
        self._began_s = clock_s()
        self._values: deque[tuple[float, float]] = deque(maxlen=samples_max)

    def add(self, value_ms: float) -> None:
        """Add a measurement."""
        self._values.append((self._clock_s(), value_ms))

    def percentiles(self) -> dict[str, float]:
        """Return p50, p95, p99, p999 and max; 0 if nothing was measured."""
        values = percentiles(self._recent(), list(PERCENTILES.values()))
        return dict(zip(PERCENTILES, values, strict=True))

    def values(self) -> list[float]:
        """Return the measurements, oldest first."""
        return self._recent()

    def share(self) -> float:
        """Return the measured share of the time; above 1 if measurements overlap."""
        window_s = min(max(self._clock_s() - self._began_s, 1.0), self._window_s)
        return sum(self._recent()) / (1000 * window_s)

    def _recent(self) -> list[float]:
        since_s = self._clock_s() - self._window_s
        return [value_ms for at_s, value_ms in list(self._values) if at_s >= since_s]


class BackgroundMetrics:
    """The metrics of one coordinator's background tasks, which ``threads`` workers run.

    Workers are shared: the idle ratio counts this coordinator's tasks only. The load of each worker
    is in its own row of the status.
    """

    def __init__(self, threads: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.queue_ms = Samples(clock_s)
        self.processing_ms = Samples(clock_s)
        self._threads = threads
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter(dict.fromkeys(MODERN, 0))

    def ran(self, queue_ms: float, processing_ms: float) -> None:
        """Count a task that a worker ran."""
        self.queue_ms.add(queue_ms)
        self.processing_ms.add(processing_ms)

    def observe(self, fact: Fact) -> None:
        """Count runs of assignors by their result."""
        match fact:
            case TargetAssigned() if fact.members:
                self._counts[RUNS] += 1
                self._counts[RUNS_IN_PLACE] += bool(fact.in_place)
            case TargetAssignmentFailed(is_final=True):
                self._failures[fact.group_type] += 1
            case TargetAssignmentFailed():
                self._counts[RUNS_RETRIED] += 1

    def gauges(self) -> dict[str, float]:
        """Return Kafka's metrics under Kafka's names."""
        busy = self.processing_ms.share() / self._threads if self._threads else 0.0
        return {
            IDLE_RATIO: round(max(1 - busy, 0.0), 6),
            **percentile_rows(QUEUE_TIME_MS, self.queue_ms),
            **percentile_rows(PROCESSING_TIME_MS, self.processing_ms),
        }

    def status(self) -> dict[str, Any]:
        """Return all metrics as plain values."""
        counts = {name: self._counts[name] for name in (RUNS, RUNS_IN_PLACE, RUNS_RETRIED)}
        return {**self.gauges(), **counts, FAILURES: dict(self._failures)}


def percentile_rows(name: str, samples: Samples) -> dict[str, float]:
    """Return the percentiles as gauges, ``name-p50`` and so on."""
    return {f"{name}-{each}": round(value, 3) for each, value in samples.percentiles().items()}
