"""One OpenTelemetry trace per rebalance."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, set_span_in_context

from actors.telemetry.failover_traces import Failover, Failovers
from actors.telemetry.rebalance_traces import LateSpans, RebalanceTraces
from actors.telemetry.root_names import CAME_BACK, ROOT_NAMES
from actors.telemetry.run_contexts import RunContexts
from actors.telemetry.span_queue import SpanQueue
from actors.telemetry.transports import TRANSPORTS, file_of, file_of_process, protocol_of
from protocol.stories.story import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from opentelemetry.sdk.trace.export import SpanExporter

    from actors.logs.leader_changes import LeaderChange
    from actors.telemetry.drops import TelemetryDrops
    from actors.telemetry.rebalance_spans import Attributes, ChildSpan
    from actors.telemetry.rebalance_traces import Trace
    from actors.telemetry.run_contexts import RunContext
    from actors.telemetry.trace_budget import TraceBudget
    from protocol.groups.classic.partitions_moved import PartitionMovement
    from protocol.groups.facts import Fact

COMPUTE: Final = "compute"

ROOTS_MAX: Final = 1_000
"""Traces that have ended, to which a late span can be added."""


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
        self._drops = drops
        self._budget: TraceBudget | None = None
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

    def limit(self, budget: TraceBudget) -> None:
        """Export only what a budget has room for."""
        self._budget = budget

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
        if self._budget is not None and not self._budget.take():
            self._drops.count_unwritten(1)
            return
        run = self._contexts.take(trace.group_id, trace.run) if trace.run else None
        self._ids.give(run.trace_id if run else None, None)
        failover = self._failover(trace)
        root = self._tracer.start_span(
            ROOT_NAMES[trace.cause] if trace.number else CAME_BACK,
            context=Context(),
            attributes=known_attributes(trace.attributes),
            start_time=_ns(trace.started_ms),
            links=() if failover is None else (Link(failover.context),),
        )
        if failover is not None:
            failover.touch(root.get_span_context(), trace.ended_ms)
        for event in trace.events:
            root.add_event(event.name, known_attributes(event.attributes), _ns(event.time_ms))
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
            attributes=known_attributes(each.attributes),
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
            attributes=known_attributes(
                {**failover.attributes, "rollcall.failover.node": self._node}
            ),
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


def exporter_of(own_file: Path | None = None) -> SpanExporter:
    """Return the exporter that the environment asks for, or that of a process's own file."""
    if (path := file_of(os.environ)) is not None:
        own_file = file_of_process(path, os.getpid())
    if own_file is not None:
        from actors.telemetry.trace_file import TraceFile

        return TraceFile(own_file)
    return TRANSPORTS[protocol_of("traces", os.environ)].spans()


def known_attributes(attributes: Attributes) -> dict[str, str | int | float]:
    """Drop missing attributes; convert enumerations to strings, and cut texts as stories do."""
    return {
        name: cut(str(value)) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None and value != ""
    }


class HashedResource(Resource):
    """A resource that is hashed once: encoders hash that of each span, by way of JSON."""

    def __init__(self, made: Resource) -> None:
        super().__init__(made.attributes, made.schema_url)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        """Return the hash that an equal resource has."""
        return self._hash


def resource_of(given: Mapping[str, str | int]) -> Resource:
    """Return this process's resource; the environment takes precedence."""
    named = OTELResourceDetector().detect().attributes
    return HashedResource(Resource.create({SERVICE_NAME: "rollcall", **given, **named}))


def _ns(time_ms: int) -> int:
    return time_ms * 1_000_000
