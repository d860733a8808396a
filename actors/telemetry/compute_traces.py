"""The spans of an assignor worker: each run that has a trace context is a span of that trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

from actors.telemetry.drops import TelemetryDrops
from actors.telemetry.run_contexts import read
from actors.telemetry.span_queue import SpanQueue
from actors.telemetry.traces import exporter_of, known_attributes, resource_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace.export import SpanExporter

COMPUTE: Final = "compute"


class ComputeTraces:
    """Exports the runs of one worker; used by one thread."""

    def __init__(
        self, resource: Mapping[str, str | int], exporter: SpanExporter | None = None
    ) -> None:
        """Export as the standard variables say, or to ``exporter``."""
        self._provider = TracerProvider(resource=resource_of(resource), shutdown_on_exit=False)
        self._queue = SpanQueue(exporter or exporter_of(), TelemetryDrops())
        self._provider.add_span_processor(self._queue)
        self._tracer = self._provider.get_tracer("rollcall")

    def tell(
        self, traceparent: str, times_ns: tuple[int, int], attributes: Mapping[str, str | int]
    ) -> None:
        """Export a run as a span below the one that ``traceparent`` names; ignore what is none."""
        known = read(traceparent)
        if known is None:
            return
        # The whole trace is sampled or nothing of it: its root is drawn by the same rule.
        drawn = self._provider.sampler.should_sample(None, known.trace_id, COMPUTE)
        if drawn.decision is not Decision.RECORD_AND_SAMPLE:
            return
        parent = SpanContext(
            known.trace_id,
            known.span_id,
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
        began_ns, ended_ns = times_ns
        span = self._tracer.start_span(
            COMPUTE,
            context=set_span_in_context(NonRecordingSpan(parent)),
            attributes=known_attributes(attributes),
            start_time=began_ns,
        )
        span.end(ended_ns)

    def close(self, timeout_s: float) -> None:
        """Deliver the remaining spans, for at most ``timeout_s``."""
        self._queue.close(timeout_s)
