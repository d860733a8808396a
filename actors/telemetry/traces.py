"""One OpenTelemetry trace per rebalance."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, set_span_in_context

from actors.telemetry.failover_traces import Failover, Failovers
from actors.telemetry.rebalance_traces import LateSpans, RebalanceTraces
from actors.telemetry.root_names import CAME_BACK, ROOT_NAMES
from actors.telemetry.run_contexts import RunContexts
from actors.telemetry.transports import TRANSPORTS, file_of, protocol_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.logs.leader_changes import LeaderChange
    from actors.telemetry.drops import TelemetryDrops
    from actors.telemetry.rebalance_spans import Attributes, ChildSpan
    from actors.telemetry.rebalance_traces import Trace
    from actors.telemetry.run_contexts import RunContext
    from protocol.groups.classic.partitions_moved import PartitionMovement
    from protocol.groups.facts import Fact

EXPORTER_LOG: Final = "opentelemetry.exporter.otlp"
COMPUTE: Final = "compute"

ROOTS_MAX: Final = 1_000
"""Traces that have ended, to which a late span can be added."""


LOOK_S: Final = 0.5
"""How often to look, while a span waits for room, whether that is still wanted."""


def no_wait() -> float:
    """Return that a span never waits for room."""
    return 0.0


class Traces:
    """Exports a trace for each rebalance; used by one thread."""

    def __init__(
        self,
        resource: Mapping[str, str | int],
        drops: TelemetryDrops,
        exporter: SpanExporter | None = None,
        contexts: RunContexts | None = None,
        partition_of: Callable[[str], int] | None = None,
    ) -> None:
        """Export as the standard variables say, or to ``exporter``.

        ``contexts`` has the ids that workers were told of runs. ``partition_of`` returns the
        partition of a group, if that is known.
        """
        self._node = resource.get(SERVICE_INSTANCE_ID)
        self._partition_of = partition_of
        self._ids = GivenIds()
        self._provider = TracerProvider(
            resource=resource_of(resource), shutdown_on_exit=False, id_generator=self._ids
        )
        self._span_queue = SpanQueue(exporter or exporter_of(), drops)
        self._provider.add_span_processor(self._span_queue)
        self._tracer = self._provider.get_tracer("rollcall")
        self._traces = RebalanceTraces()
        self._contexts = contexts or RunContexts()
        self._roots: OrderedDict[tuple[str, int], SpanContext] = OrderedDict()
        self._failovers = Failovers()

    def wait_for_room(self, room_s: Callable[[], float]) -> None:
        """Let spans wait for room, as long as ``room_s`` returns."""
        self._span_queue.room_s = room_s

    def tell(
        self, fact: Fact, moved: PartitionMovement | None, *, is_outlived: bool = False
    ) -> None:
        """Export the trace of a rebalance that ends with this fact, if any."""
        for told in self._traces.tell(fact, moved, is_outlived=is_outlived):
            if isinstance(told, LateSpans):
                self._export_late(told)
            else:
                self._export(told)

    def tell_leader(self, change: LeaderChange) -> None:
        """Take a change of the leader of a partition; a begin is a failover."""
        if change.begins:
            self._failovers.began(change)

    def tell_failovers(self, now_ms: int | None) -> None:
        """Export the failovers that are due at a time (Unix ms); None: all."""
        for failover in self._failovers.take_due(now_ms):
            self._export_failover(failover)

    def close(self, timeout_s: float) -> None:
        """Deliver the remaining spans, for at most ``timeout_s``."""
        self.tell_failovers(None)
        self._span_queue.close(timeout_s)

    def _export(self, trace: Trace) -> None:
        run = self._contexts.take(trace.group_id, trace.run) if trace.run else None
        self._ids.give(run.trace_id if run else None, None)
        failover = self._failover(trace)
        root = self._tracer.start_span(
            ROOT_NAMES[trace.cause] if trace.number else CAME_BACK,
            context=Context(),
            attributes=_known(trace.attributes),
            start_time=_ns(trace.started_ms),
            links=() if failover is None else (Link(failover.context),),
        )
        if failover is not None:
            failover.touch(root.get_span_context(), trace.ended_ms)
        for event in trace.events:
            root.add_event(event.name, _known(event.attributes), _ns(event.time_ms))
        for each in trace.spans:
            self._export_below(each, set_span_in_context(root, Context()), run)
        root.end(_ns(trace.ended_ms))
        if trace.number:
            self._roots[trace.group_id, trace.number] = root.get_span_context()
            if len(self._roots) > ROOTS_MAX:
                self._roots.popitem(last=False)

    def _export_below(self, each: ChildSpan, inside: Context, run: RunContext | None) -> None:
        is_told_by_worker = each.is_run and run is not None
        self._ids.give(None, run.span_id if run is not None and each.is_run else None)
        span = self._tracer.start_span(
            each.name,
            context=inside,
            attributes=_known(each.attributes),
            start_time=_ns(each.started_ms),
        )
        for below in each.spans:
            if below.name != COMPUTE or not is_told_by_worker:
                self._export_below(below, set_span_in_context(span, Context()), run)
        span.end(_ns(each.ended_ms))

    def _export_late(self, late: LateSpans) -> None:
        root = self._roots.pop((late.group_id, late.number), None)
        if root is not None:
            inside = set_span_in_context(NonRecordingSpan(root), Context())
            for span in late.spans:
                self._export_below(span, inside, None)

    def _failover(self, trace: Trace) -> Failover | None:
        """Return the failover that touched a rebalance, if one did."""
        if trace.failover_ms is None:
            return None
        partition = None if self._partition_of is None else self._partition_of(trace.group_id)
        return self._failovers.at(partition, trace.failover_ms)

    def _export_failover(self, failover: Failover) -> None:
        self._ids.give(failover.context.trace_id, failover.context.span_id)
        span = self._tracer.start_span(
            "failover",
            context=Context(),
            attributes=_known({**failover.attributes, "rollcall.failover.node": self._node}),
            start_time=_ns(failover.elected_ms),
            links=[Link(each) for each in failover.links],
        )
        span.end(_ns(failover.ended_ms))


class GivenIds(RandomIdGenerator):
    """Draws ids, but for those of the next span that are given."""

    def __init__(self) -> None:
        self._trace_id: int | None = None
        self._span_id: int | None = None

    def give(self, trace_id: int | None, span_id: int | None) -> None:
        """Give the ids of the next span; None: they are drawn."""
        self._trace_id, self._span_id = trace_id, span_id

    def generate_trace_id(self) -> int:
        """Return the id that was given, once, or draw one."""
        given, self._trace_id = self._trace_id, None
        return super().generate_trace_id() if given is None else given

    def generate_span_id(self) -> int:
        """Return the id that was given, once, or draw one."""
        given, self._span_id = self._span_id, None
        return super().generate_span_id() if given is None else given


class SpanQueue(SpanProcessor):
    """Passes finished spans to the exporter in a thread, and counts dropped spans.

    The SDK's batch processor does not report drops and closes without a deadline; the environment
    variables are the same (``docs/decisions/dependencies.md``). ``room_s`` returns how long a span
    may wait for room by now; while exports fail none waits.
    """

    def __init__(self, exporter: SpanExporter, drops: TelemetryDrops) -> None:
        self.room_s: Callable[[], float] = no_wait
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
            self._await_room()
            if len(self._spans) >= self._waiting_max or self._is_closing:
                self._drops.count_spans(1, "the backend is too slow")
                return
            self._spans.append(span)
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Deliver the remaining spans; drop those that are not delivered in time."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
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
            self._drops.is_failing = result is not SpanExportResult.SUCCESS
            if self._drops.is_failing:
                self._drops.count_spans(len(batch), self._last_error.text)
            self._drops.report()

    def _await_room(self) -> None:
        """Wait until there is room, it takes too long, or exports fail."""
        begun_s = time.monotonic()
        while len(self._spans) >= self._waiting_max and not self._is_closing:
            left_s = self.room_s() - (time.monotonic() - begun_s)
            if left_s <= 0 or self._drops.is_failing:
                return
            self._changed.wait(min(left_s, LOOK_S))

    def _next_batch(self) -> list[ReadableSpan]:
        """Wait for a full batch or the delay; empty when closed and all is delivered."""
        with self._changed:
            self._changed.wait_for(lambda: self._spans or self._is_closing)
            self._changed.wait_for(
                lambda: len(self._spans) >= self._batch_max or self._is_closing, self._delay_s
            )
            size = min(len(self._spans), self._batch_max)
            taken = [self._spans.popleft() for _ in range(size)]
            self._changed.notify_all()
            return taken


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


def exporter_of() -> SpanExporter:
    """Return the exporter that the environment asks for."""
    if (path := file_of(os.environ)) is not None:
        from actors.telemetry.trace_file import TraceFile

        return TraceFile(path)
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
