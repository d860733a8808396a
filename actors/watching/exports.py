"""What a watch exports to OpenTelemetry, if the environment asks for it: traces and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.telemetry.histograms import SLOW_S, Histogram
from actors.telemetry.metric_table import ROWS, MetricKind
from actors.telemetry.observer import Telemetry, open_metrics

if TYPE_CHECKING:
    from actors.telemetry.group_metrics import GroupMetrics
    from protocol.groups.facts import Fact

CLOSE_S: Final = 5.0


class WatchExports:
    """The exports of one watch."""

    def __init__(self, bootstrap: str, metrics: GroupMetrics) -> None:
        resource = {"rollcall.watched.bootstrap": bootstrap}
        self._telemetry = Telemetry(resource)
        empty = {row.key: Histogram(SLOW_S) for row in ROWS if row.kind is MetricKind.HISTOGRAM}
        self._metrics = open_metrics(resource, metrics.status, {**empty, **metrics.histograms()})

    def observe(self, fact: Fact) -> None:
        """Take a fact; never blocks."""
        self._telemetry.observe(fact)

    def close(self) -> None:
        """Deliver what remains, for some seconds at most."""
        self._telemetry.close(CLOSE_S)
        if self._metrics is not None:
            self._metrics.close(CLOSE_S)
