"""What a watch exports to OpenTelemetry, if the environment asks for it: traces and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.metrics.row import MetricKind, MetricScope, MetricSource
from actors.metrics.table import ROWS
from actors.telemetry.histograms import SLOW_S, Histogram
from actors.telemetry.observer import Telemetry, open_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.telemetry.group_metrics import GroupMetrics
    from actors.telemetry.otlp_metrics import Parts
    from protocol.groups.facts import Fact

CLOSE_S: Final = 5.0


def _no_lag() -> Mapping[str, Any]:
    return {}


class WatchExports:
    """The exports of one watch; ``lag`` returns what is known of offsets, once that is watched."""

    def __init__(self, bootstrap: str, metrics: GroupMetrics) -> None:
        resource = {"rollcall.watched.bootstrap": bootstrap}
        self.lag: Callable[[], Mapping[str, Any]] = _no_lag
        self._groups = metrics
        self._telemetry = Telemetry(resource)
        empty = {row.key: Histogram(SLOW_S) for row in ROWS if row.kind is MetricKind.HISTOGRAM}
        self._metrics = open_metrics(
            resource,
            self._read,
            {**empty, **metrics.histograms()},
            (MetricSource.COORDINATOR, MetricSource.WATCH),
        )

    def observe(self, fact: Fact) -> None:
        """Take a fact; never blocks."""
        self._telemetry.observe(fact)

    def close(self) -> None:
        """Deliver what remains, for some seconds at most."""
        self._telemetry.close(CLOSE_S)
        if self._metrics is not None:
            self._metrics.close(CLOSE_S)

    def _read(self, scope: MetricScope) -> Parts:
        """Return what rows of a scope read; in the thread of the export."""
        if scope is MetricScope.CLUSTER:
            return [((), {"lag": self.lag()})]
        return [((), {"metrics": self._groups.status()})]
