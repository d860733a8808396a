"""One OpenTelemetry trace per rebalance. The only file that imports OpenTelemetry."""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import set_span_in_context

from protocol.groups.facts import GroupDeleted, MemberEvent, Rebalance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.losses import Losses
    from protocol.groups.facts import Fact
    from protocol.groups.moved import Moved

EVENTS_PER_TRACE_MAX: Final = 128
EVENTS_KEPT_MAX: Final = 50_000
"""Over all groups; the events of the group that was quiet longest go first."""

EXPORTER_LOG: Final = "opentelemetry.exporter.otlp"


class Traces:
    """Turns facts into spans; used by one thread."""

    def __init__(
        self,
        resource: Mapping[str, str | int],
        losses: Losses,
        exporter: SpanExporter | None = None,
    ) -> None:
        """Export by the standard variables, or to ``exporter``."""
        self._provider = TracerProvider(resource=resource_of(resource), shutdown_on_exit=False)
        self._outbox = Outbox(exporter or OTLPSpanExporter(), losses)
        self._provider.add_span_processor(self._outbox)
        self._tracer = self._provider.get_tracer("rollcall")
        self._events = RecentEvents()

    def tell(self, fact: Fact, moved: Moved | None) -> None:
        """Make a trace of a rebalance; remember a member's event for the one it belongs to."""
        match fact:
            case Rebalance():
                self._trace(fact, moved)
            case MemberEvent():
                self._events.add(fact)
            case GroupDeleted():
                self._events.forget(fact.group_id)

    def close(self, timeout_s: float) -> None:
        """Deliver what is left, for at most ``timeout_s``."""
        self._outbox.close(timeout_s)

    def _trace(self, fact: Rebalance, moved: Moved | None) -> None:
        started_ms, ended_ms = fact.phases[0].started_ms, fact.phases[-1].ended_ms
        root = self._tracer.start_span(
            f"rebalance {fact.group_id}",
            context=Context(),
            attributes=_known(_attributes(fact, moved)),
            start_time=_ns(started_ms),
        )
        for event in self._events.take(fact.group_id, started_ms, ended_ms):
            root.add_event(event.kind, _known(_event_attributes(event)), _ns(event.time_ms))
        inside = set_span_in_context(root, Context())
        for phase in fact.phases:
            span = self._tracer.start_span(
                phase.name, context=inside, start_time=_ns(phase.started_ms)
            )
            span.end(_ns(phase.ended_ms))
        root.end(_ns(ended_ms))


class RecentEvents:
    """Member events that a rebalance under way may claim when it ends."""

    def __init__(self) -> None:
        self._by_group: OrderedDict[str, deque[MemberEvent]] = OrderedDict()
        self._count = 0

    def add(self, event: MemberEvent) -> None:
        """Remember an event; the oldest one of its group makes room."""
        events = self._by_group.setdefault(event.group_id, deque(maxlen=EVENTS_PER_TRACE_MAX))
        self._by_group.move_to_end(event.group_id)
        self._count += len(events) < EVENTS_PER_TRACE_MAX
        events.append(event)
        while self._count > EVENTS_KEPT_MAX:
            self.forget(next(iter(self._by_group)))

    def take(self, group_id: str, started_ms: int, ended_ms: int) -> list[MemberEvent]:
        """Give the events of a rebalance. Those of its last moment may begin the next one too."""
        events = self._by_group.get(group_id, deque())
        self.forget(group_id)
        for event in events:
            if event.time_ms >= ended_ms:
                self.add(event)
        return [event for event in events if started_ms <= event.time_ms <= ended_ms]

    def forget(self, group_id: str) -> None:
        """Drop the events of one group."""
        self._count -= len(self._by_group.pop(group_id, ()))


class Outbox(SpanProcessor):
    """Hands finished spans to the exporter from a thread of its own, and counts what is lost.

    The SDK's batch processor does the same but for the counting; the variables are its own.
    """

    def __init__(self, exporter: SpanExporter, losses: Losses) -> None:
        self._exporter = exporter
        self._losses = losses
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
        """Take a finished span, as long as there is room."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        with self._changed:
            if len(self._spans) >= self._waiting_max or self._is_closing:
                self._losses.lose_spans(1, "they came faster than the backend took them")
                return
            self._spans.append(span)
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Deliver what is left; what is not delivered in time is lost."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        with self._changed:
            self._losses.lose_spans(len(self._spans), "the process ended")
            self._spans.clear()
        self._exporter.shutdown()  # ends an attempt that is under way
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
                self._losses.lose_spans(len(batch), self._last_error.text)
            self._losses.report()

    def _next_batch(self) -> list[ReadableSpan]:
        """Wait for a full batch or the delay; empty when everything is delivered and we close."""
        with self._changed:
            self._changed.wait_for(lambda: self._spans or self._is_closing)
            self._changed.wait_for(
                lambda: len(self._spans) >= self._batch_max or self._is_closing, self._delay_s
            )
            size = min(len(self._spans), self._batch_max)
            return [self._spans.popleft() for _ in range(size)]


class _LastError(logging.Handler):
    """Keeps what the exporter says, so that it is said once a minute and not at each attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._logger = logging.getLogger(EXPORTER_LOG)
        self._logger.addHandler(self)
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Remember the newest message."""
        self.text = record.getMessage()

    def detach(self) -> None:
        """Let the exporter speak for itself again."""
        self._logger.removeHandler(self)
        self._logger.propagate = True


def _attributes(fact: Rebalance, moved: Moved | None) -> dict[str, str | int | None]:
    is_stable = fact.outcome == "stable"
    attributes: dict[str, str | int | None] = {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": fact.group_id,
        "messaging.client.id": fact.client_id,
        "rollcall.rebalance.trigger": fact.trigger,
        "rollcall.rebalance.outcome": fact.outcome,
        "rollcall.rebalance.reason": fact.reason,
        "rollcall.member.id": fact.member_id,
        "rollcall.member.instance_id": fact.group_instance_id,
        "rollcall.member.host": fact.client_host,
        "rollcall.generation.before": fact.generation_before,
        "rollcall.generation.after": fact.generation_after,
        "rollcall.protocol.type": fact.protocol_type,
        "rollcall.protocol.name": fact.protocol_name,
        "rollcall.leader.id": fact.leader_id,
        "rollcall.members": len(fact.assignments_after) if is_stable else None,
    }
    if moved is not None and is_stable:
        attributes |= {
            "rollcall.partitions.assigned": moved.assigned,
            "rollcall.partitions.moved": moved.moved,
            "rollcall.partitions.added": moved.added,
            "rollcall.partitions.dropped": moved.dropped,
        }
    return attributes


def _event_attributes(event: MemberEvent) -> dict[str, str | int | None]:
    return {
        "rollcall.member.id": event.member_id,
        "rollcall.member.instance_id": event.group_instance_id,
        "rollcall.member.previous_id": event.previous_member_id,
        "rollcall.member.host": event.client_host,
        "rollcall.member.reason": event.reason,
        "messaging.client.id": event.client_id,
    }


def _known(attributes: Mapping[str, str | int | None]) -> dict[str, str | int]:
    """Leave out what is not there; plain strings in place of enumerations."""
    return {
        name: str(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None and value != ""
    }


def resource_of(given: Mapping[str, str | int]) -> Resource:
    """Describe this process; what the environment says of it wins."""
    named = OTELResourceDetector().detect().attributes
    return Resource.create({SERVICE_NAME: "rollcall", **given, **named})


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    return max(int(text), 1) if text else default


def _ns(time_ms: int) -> int:
    return time_ms * 1_000_000
