"""Finished spans on their way to a backend: batched, bounded, and counted if they are dropped."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from protocol.stories.story import TEXT_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.telemetry.drops import TelemetryDrops

EXPORTER_LOG: Final = "opentelemetry.exporter.otlp"

BATCH_BYTES_MAX: Final = 3 << 20
"""Bytes of one export: servers of gRPC refuse messages of more than 4 MiB."""

WAITING_BYTES_MAX: Final = 32 << 20
"""Bytes of spans that wait for the exporter."""

SPAN_BYTES: Final = 256
"""What a span takes beside its attributes; a link and an event take less."""

LINK_BYTES: Final = 48
EVENT_BYTES: Final = 64
ATTRIBUTE_BYTES: Final = 64 + 4 * TEXT_MAX
"""The most that an attribute takes: its name, and a text that was cut."""

LOOK_S: Final = 0.5
"""How often to look, while a span waits for room, whether that is still wanted."""


def no_wait() -> float:
    """Return that a span never waits for room."""
    return 0.0


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
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._is_closing = False
        self._last_error = _LastError()
        self._thread = threading.Thread(target=self._run, name="telemetry-export", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a finished span, if there is room."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        size = size_of(span)
        with self._changed:
            self._await_room(size)
            if not self._has_room(size) or self._is_closing:
                self._drops.count_spans(1, "the backend is too slow")
                return
            self._spans.append(span)
            self._sizes.append(size)
            self._bytes += size
            if len(self._spans) == 1 or self._is_batch():
                self._changed.notify_all()

    def close(self, timeout_s: float) -> None:
        """Deliver the remaining spans; drop those that are not delivered in time."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        with self._changed:
            self._drops.count_spans(len(self._spans), "the process ended")
            self._spans.clear()
            self._sizes.clear()
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

    def _next_batch(self) -> list[ReadableSpan]:
        """Wait for a full batch or the delay; empty when closed and all is delivered."""
        with self._changed:
            self._changed.wait_for(lambda: self._spans or self._is_closing)
            self._changed.wait_for(lambda: self._is_batch() or self._is_closing, self._delay_s)
            taken: list[ReadableSpan] = []
            room = BATCH_BYTES_MAX
            while self._spans and len(taken) < self._batch_max:
                room -= self._sizes[0]
                if room < 0 and taken:
                    break
                self._bytes -= self._sizes.popleft()
                taken.append(self._spans.popleft())
            self._changed.notify_all()
            return taken

    def _has_room(self, size: int) -> bool:
        return len(self._spans) < self._waiting_max and self._bytes + size <= WAITING_BYTES_MAX

    def _await_room(self, size: int) -> None:
        """Wait until there is room, it takes too long, or exports fail."""
        begun_s = time.monotonic()
        while not self._has_room(size) and not self._is_closing:
            left_s = self.room_s() - (time.monotonic() - begun_s)
            if left_s <= 0 or self._drops.is_failing:
                return
            self._changed.wait(min(left_s, LOOK_S))

    def _is_batch(self) -> bool:
        return len(self._spans) >= self._batch_max or self._bytes >= BATCH_BYTES_MAX


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


def size_of(span: ReadableSpan) -> int:
    """Return how many bytes a span takes in a request at most: looking at texts takes longer."""
    events = span.events
    attributes = len(span.attributes or ())
    for event in events:
        attributes += len(event.attributes or ())
    return (
        SPAN_BYTES
        + len(span.name)
        + LINK_BYTES * len(span.links)
        + EVENT_BYTES * len(events)
        + ATTRIBUTE_BYTES * attributes
    )


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    return max(int(text), 1) if text else default
