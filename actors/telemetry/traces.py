"""One OpenTelemetry trace per rebalance."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import set_span_in_context

from actors.telemetry.rebalance_traces import RebalanceTraces
from actors.telemetry.transports import TRANSPORTS, protocol_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.telemetry.drops import TelemetryDrops
    from actors.telemetry.rebalance_traces import Attributes, Trace
    from protocol.groups.classic.partitions_moved import PartitionMovement
    from protocol.groups.facts import Fact

EXPORTER_LOG: Final = "opentelemetry.exporter.otlp"


class Traces:
    """Exports a trace for each rebalance; used by one thread."""

    def __init__(
        self,
        resource: Mapping[str, str | int],
        drops: TelemetryDrops,
        exporter: SpanExporter | None = None,
    ) -> None:
        """Export as the standard variables say, or to ``exporter``."""
        self._provider = TracerProvider(resource=resource_of(resource), shutdown_on_exit=False)
        self._span_queue = SpanQueue(exporter or _exporter(), drops)
        self._provider.add_span_processor(self._span_queue)
        self._tracer = self._provider.get_tracer("rollcall")
        self._traces = RebalanceTraces()

    def tell(self, fact: Fact, moved: PartitionMovement | None) -> None:
        """Export the trace of a rebalance that ends with this fact, if any."""
        for trace in self._traces.tell(fact, moved):
            self._export(trace)

    def close(self, timeout_s: float) -> None:
        """Deliver the remaining spans, for at most ``timeout_s``."""
        self._span_queue.close(timeout_s)

    def _export(self, trace: Trace) -> None:
        root = self._tracer.start_span(
            f"rebalance {trace.group_id}",
            context=Context(),
            attributes=_known(trace.attributes),
            start_time=_ns(trace.started_ms),
        )
        for event in trace.events:
            root.add_event(event.name, _known(event.attributes), _ns(event.time_ms))
        inside = set_span_in_context(root, Context())
        for each in trace.spans:
            span = self._tracer.start_span(
                each.name,
                context=inside,
                attributes=_known(each.attributes),
                start_time=_ns(each.started_ms),
            )
            span.end(_ns(each.ended_ms))
        root.end(_ns(trace.ended_ms))


class SpanQueue(SpanProcessor):
    """Passes finished spans to the exporter in a thread, and counts dropped spans.

    The SDK's batch processor does not report drops and closes without a deadline; the environment
    variables are the same (``docs/decisions/dependencies.md``).
    """

    def __init__(self, exporter: SpanExporter, drops: TelemetryDrops) -> None:
        self._exporter = exporter
        self._drops = drops
        self._delay_s = _number("OTEL_BSP_SCHEDULE_DELAY", 5_000) / 1_000
        self._batch_max = _number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)
        self._waiting_max = _number("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)
        self._spans: deque[ReadableSpan] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._last_error = _LastError()
        self._thread = threading.Thread(target=self._run, name="telemetry-export", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a finished span, if there is room."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        with self._changed:
            if len(self._spans) >= self._waiting_max or self._is_closing:
                self._drops.count_spans(1, "the backend is too slow")
                return
            self._spans.append(span)
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Deliver the remaining spans; drop those that are not delivered in time."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        with self._changed:
            self._drops.count_spans(len(self._spans), "the process ended")
            self._spans.clear()
        self._exporter.shutdown()  # ends an export in progress
        self._thread.join(1)
        self._last_error.detach()

    def _run(self) -> None:
        while batch := self._next_batch():
            try:
                result = self._exporter.export(batch)
            except Exception as error:
                result = SpanExportResult.FAILURE
                self._last_error.text = f"{type(error).__name__}: {error}"
            if result is not SpanExportResult.SUCCESS:
                self._drops.count_spans(len(batch), self._last_error.text)
            self._drops.report()

    def _next_batch(self) -> list[ReadableSpan]:
        """Wait for a full batch or the delay; empty when closed and all is delivered."""
        with self._changed:
            self._changed.wait_for(lambda: self._spans or self._is_closing)
            self._changed.wait_for(
                lambda: len(self._spans) >= self._batch_max or self._is_closing, self._delay_s
            )
            size = min(len(self._spans), self._batch_max)
            return [self._spans.popleft() for _ in range(size)]


class _LastError(logging.Handler):
    """Keeps the exporter's last error, which is logged once a minute and not for each attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._logger = logging.getLogger(EXPORTER_LOG)
        self._logger.addHandler(self)
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Store the newest message."""
        self.text = record.getMessage()

    def detach(self) -> None:
        """Restore the exporter's own logging."""
        self._logger.removeHandler(self)
        self._logger.propagate = True


def _exporter() -> SpanExporter:
    return TRANSPORTS[protocol_of("traces", os.environ)].spans()


def _known(attributes: Attributes) -> dict[str, str | int | float]:
    """Drop missing attributes; convert enumerations to strings."""
    return {
        name: str(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None and value != ""
    }


def resource_of(given: Mapping[str, str | int]) -> Resource:
    """Return this process's resource; the environment takes precedence."""
    named = OTELResourceDetector().detect().attributes
    return Resource.create({SERVICE_NAME: "rollcall", **given, **named})


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    return max(int(text), 1) if text else default


def _ns(time_ms: int) -> int:
    return time_ms * 1_000_000
