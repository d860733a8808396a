"""Spans in a file, one OTLP request as JSON a line, as OpenTelemetry's file exporters write them.

Each process has its own files, because none can rotate those of another: a file that is full
becomes ``traces.jsonl.1``.
"""

from __future__ import annotations

import json
import logging
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
FILES_KEPT: Final = 2


def as_line(spans: Sequence[ReadableSpan]) -> str:
    """Return spans as OTLP in JSON."""
    return json.dumps(encode_spans(spans).to_dict(), ensure_ascii=False, separators=(",", ":"))


class _Lines(RotatingFileHandler):
    """Writes texts as lines, and notes whether one could not be written."""

    has_failed = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802
        """Note a failure: the caller counts it."""
        self.has_failed = True

    def write(self, line: str) -> bool:
        """Write a line; return whether that worked."""
        self.has_failed = False
        self.emit(logging.LogRecord("traces", logging.INFO, "", 0, line, None, None))
        return not self.has_failed


class TraceFile(SpanExporter):
    """Writes spans to the files of one process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lines = _Lines(path, maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, delay=True)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write a line; the caller counts what could not be written."""
        is_written = self._lines.write(as_line(spans))
        return SpanExportResult.SUCCESS if is_written else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Close the file."""
        self._lines.close()
