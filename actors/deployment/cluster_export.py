"""Exports over OTLP what only the controller knows: leaders, leases, workers, and who is away."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from actors.metrics.row import MetricSource, parts_of
from actors.telemetry.observer import open_metrics
from protocol.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from actors.metrics.row import MetricScope
    from actors.telemetry.otlp_metrics import MetricsExport, Parts

_log = logging.getLogger("rollcall.telemetry")

ASK_S: Final = 3.0
"""How long an export waits for the event loop; then this one has nothing of the cluster."""


def open_cluster_metrics(
    resource: Mapping[str, str | int],
    overview: Callable[[], Coroutine[Any, Any, Mapping[str, Any]]],
) -> MetricsExport | None:
    """Start to export, if the environment requests it; ``overview`` runs on this event loop."""
    loop = asyncio.get_running_loop()

    def read(scope: MetricScope) -> Parts:
        asking = asyncio.run_coroutine_threadsafe(overview(), loop)
        try:
            return parts_of(asking.result(ASK_S), scope)
        except Exception as error:
            asking.cancel()
            _log.warning("this export has nothing of the cluster: %s", reason(error))
            return []

    return open_metrics(resource, read, sources=[MetricSource.CONTROLLER])
