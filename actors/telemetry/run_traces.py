"""Drills, rehearsals and benchmarks as traces: one for each run, sent when it has ended.

What the coordinators did meanwhile is in traces of their own, which have the same service name if
the environment says so.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.telemetry.observer import exports_traces
from protocol.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace.export import SpanExporter

_log = logging.getLogger("rollcall.telemetry")

CLOSE_S: Final = 5.0
TOLD_MAX: Final = 100
"""Events of a run that its span has: the first ones."""

STEPS_MAX: Final = 100
"""Steps of a run that have a span: the first ones."""


@dataclass(frozen=True, slots=True)
class RunStep:
    """One step of a run: a fault, or what ends one; both ends in Unix milliseconds."""

    name: str
    started_ms: int
    ended_ms: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """One run: ``kind`` is ``drill``, ``rehearsal``, ``load`` or ``bench``; times in Unix ms.

    The root span is named by ``kind`` and ``name``, which must be few: ``variant`` is an attribute.
    ``is_clean`` is the verdict; None: there is none, or the run was not completed. ``told`` is what
    was said, and when.
    """

    kind: str
    name: str
    started_ms: int
    ended_ms: int
    is_clean: bool | None = None
    how: str = ""
    variant: str = ""
    told: Sequence[tuple[int, str]] = ()
    steps: Sequence[RunStep] = ()


def trace_run(run: TracedRun, exporter: SpanExporter | None = None) -> None:
    """Send a run as a trace, if traces are configured; takes ``CLOSE_S`` at most."""
    if exporter is None and not exports_traces(os.environ):
        return
    try:
        _send(run, exporter)
    except Exception as error:
        _log.warning("the run cannot be traced: %s", reason(error))


def _send(run: TracedRun, exporter: SpanExporter | None) -> None:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import set_span_in_context

    from actors.telemetry.drops import TelemetryDrops
    from actors.telemetry.span_queue import SpanQueue
    from actors.telemetry.traces import exporter_of, resource_of

    resource = resource_of({"service.instance.id": f"{run.kind}-{os.getpid()}"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    drops = TelemetryDrops()
    queue = SpanQueue(exporter or exporter_of(), drops)
    provider.add_span_processor(queue)
    tracer = provider.get_tracer("rollcall")
    verdict = {None: "none", True: "clean", False: "not-clean"}[run.is_clean]
    attributes = {
        "rollcall.run.kind": run.kind,
        "rollcall.run.name": run.name,
        "rollcall.run.verdict": verdict,
    }
    if run.how:
        attributes["rollcall.run.place"] = run.how
    if run.variant:
        attributes["rollcall.run.variant"] = run.variant
    root = tracer.start_span(
        f"{run.kind} {run.name}",
        context=Context(),
        attributes=attributes,
        start_time=run.started_ms * 10**6,
    )
    for at_ms, text in run.told[:TOLD_MAX]:
        root.add_event("said", {"rollcall.run.text": text}, at_ms * 10**6)
    inside = set_span_in_context(root, Context())
    for step in run.steps[:STEPS_MAX]:
        span = tracer.start_span(
            step.name,
            context=inside,
            attributes={"rollcall.run.text": step.text},
            start_time=step.started_ms * 10**6,
        )
        span.end(step.ended_ms * 10**6)
    root.end(max(run.ended_ms, run.started_ms) * 10**6)
    queue.close(CLOSE_S)
    drops.report(finally_=True)
