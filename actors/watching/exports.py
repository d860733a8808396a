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
ROOM_S: Final = 30.0
"""How long reading waits for traces that are being exported, while it catches up."""


def _has_caught_up() -> bool:
    return False


def _no_lag() -> Mapping[str, Any]:
    return {}


class WatchExports:
    """The exports of one watch; ``lag`` returns what is known of offsets, once that is watched.

    While the watch ``is_catching_up``, the log is read no faster than traces are exported.
    """

    def __init__(self, bootstrap: str, metrics: GroupMetrics) -> None:
        resource = {"rollcall.watched.bootstrap": bootstrap}
        self.lag: Callable[[], Mapping[str, Any]] = _no_lag
        self._groups = metrics
        self.is_catching_up: Callable[[], bool] = _has_caught_up
        self._telemetry = Telemetry(resource)
        self._telemetry.room_s = ROOM_S
        empty = {row.key: Histogram(SLOW_S) for row in ROWS if row.kind is MetricKind.HISTOGRAM}
        self._metrics = open_metrics(
            resource,
            self._read,
            {**empty, **metrics.histograms()},
            (MetricSource.COORDINATOR, MetricSource.WATCH),
        )

    def observe(self, fact: Fact) -> None:
        """Take a fact; blocks only while there is no room, and the watch is catching up."""
        if self.is_catching_up():
            self._telemetry.await_room(ROOM_S)
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
