"""Turns facts into log lines and, if OpenTelemetry is configured, one trace per rebalance.

``observe`` only puts the fact into a queue. A thread does everything else; facts that do not fit
into the queue are dropped and counted. OpenTelemetry is imported only if its standard environment
variables request an export (``docs/tracing.md``).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from actors.clock import wall_ms
from actors.logs.leader_changes import LeaderChange, LeaderChanges
from actors.metrics.row import MetricSource
from actors.stories.waiting_facts import BYTES_MAX, LINGER_S, WaitingFacts, size_of
from actors.telemetry.drops import TelemetryDrops
from actors.telemetry.log_messages import log_fields, log_message, log_message_for_many
from actors.telemetry.run_contexts import RunContexts
from actors.telemetry.trace_budget import TraceBudget
from actors.telemetry.transports import (
    TRANSPORTS,
    destination,
    file_of,
    is_disabled,
    own_file_of,
    protocol_of,
)
from protocol.groups.facts import MemberEvent, RebalanceEnded, ResultReplicated
from protocol.stories.movement import count_classic
from protocol.stories.teller import outlived

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from actors.metrics.row import MetricScope
    from actors.telemetry.histograms import Histogram
    from actors.telemetry.otlp_metrics import MetricsExport, Parts
    from actors.telemetry.traces import Traces
    from protocol.groups.classic.partitions_moved import PartitionMovement
    from protocol.groups.facts import Fact

_log = logging.getLogger("rollcall.groups")
_coordinator_log = logging.getLogger("rollcall.coordinator")
_own_log = logging.getLogger("rollcall.telemetry")

FACTS_WAITING_MAX: Final = 20_000
LEADER_CHANGE_BYTES: Final = 256
LOOK_S: Final = 15.0
"""How often to look, without facts, whether a failover is to be told."""

NOWHERE: Final = "nowhere"
"""Where traces go that are not exported."""

SAID_SINGLY_MAX: Final = 50
"""Member events of a group to log singly per batch; the others are summarized."""


class Telemetry:
    """The log lines and traces of one process's groups.

    ``room_s``: how long the thread waits for the export of spans if too many wait for that.
    """

    def __init__(
        self,
        resource: Mapping[str, str | int],
        facts_waiting_max: int = FACTS_WAITING_MAX,
        partition_of: Callable[[str], int] | None = None,
        bytes_waiting_max: int = BYTES_MAX,
        own_file: Path | None = None,
    ) -> None:
        """``resource`` has this process's attributes, such as ``service.instance.id``.

        ``partition_of`` returns the partition of a group, if that is known. If traces are exported,
        changes of leaders that this process's coordinator logs are traces, too. ``own_file``: where
        traces go, at most some a second, if the environment says nothing of them.
        """
        self.drops = TelemetryDrops()
        self._contexts = RunContexts()
        self._own_file = own_file_of(os.environ, own_file)
        self._exports = exports_traces(os.environ, own_file)
        self.traces_go = traces_go(os.environ, own_file)
        _own_log.info("traces go %s", self.traces_go)
        self._resource = resource
        self._partition_of = partition_of
        self.room_s = 0.0
        self._has_given_up = False
        self._facts: WaitingFacts[Fact | LeaderChange] = WaitingFacts(
            _size, facts_waiting_max, bytes_waiting_max
        )
        self._closing = threading.Event()
        self._closing_deadline_s = 0.0
        self._leaders = LeaderChanges(self._queue)
        if self._exports:
            _coordinator_log.addHandler(self._leaders)
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def observe(self, fact: Fact) -> None:
        """Queue a fact; never blocks, never raises."""
        self._queue(fact)

    def await_room(self, timeout_s: float) -> None:
        """Wait until a fact has room, at most so long; not again before there is some."""
        if self._facts.has_room:
            self._has_given_up = False
        deadline_s = time.monotonic() + timeout_s
        while not self._facts.has_room and not self._has_given_up:
            self._has_given_up = time.monotonic() >= deadline_s
            self._closing.wait(LINGER_S)

    def _queue(self, fact: Fact | LeaderChange) -> None:
        if not self._facts.put(fact):
            self.drops.count_facts(1)

    def run_context(self, group_id: str, run: int) -> str:
        """Return the trace context of an assignor run; "" if its worker exports no traces."""
        is_traced_there = self._exports and self._own_file is None
        return self._contexts.begin(group_id, run) if is_traced_there else ""

    def traces(self) -> dict[str, str | bool]:
        """Return where traces go, and whether the last export has failed; for any thread."""
        return {"go": self.traces_go, "is_failing": self.drops.is_failing}

    def close(self, timeout_s: float = 5.0) -> None:
        """Process and deliver the remaining facts, for about ``timeout_s`` at most; blocks."""
        if not self._closing.is_set():
            _coordinator_log.removeHandler(self._leaders)
            self._closing_deadline_s = time.monotonic() + timeout_s
            self._closing.set()
            self._facts.wake()
        self._thread.join(timeout_s + 1)
        if self._thread.is_alive():
            self.drops.count_facts(self._facts.count)
            self.drops.report(finally_=True)

    def _wait_s(self) -> float:
        """Return how long a span may wait for room by now."""
        if not self._closing.is_set():
            return self.room_s
        return min(max(self._closing_deadline_s - time.monotonic(), 0.0), self.room_s)

    def _run(self) -> None:
        traces = self._open_traces()
        while not self._closing.is_set() or not self._facts.is_empty:
            facts = self._facts.take(self._closing, self._idle_s())
            try:
                self._tell(facts, traces)
                if traces is not None:
                    traces.tell_failovers(wall_ms())
            except Exception:
                self.drops.count_facts(len(facts))
                _own_log.exception("%d facts could not be processed", len(facts))
            self.drops.report()
        if traces is not None:
            traces.close(max(self._closing_deadline_s - time.monotonic(), 0.1))
        self.drops.report(finally_=True)

    def _idle_s(self) -> float | None:
        """Return how long to wait for a fact: until a report, or a failover, may be due."""
        report_s = self.drops.next_report_in_s()
        if not self._exports:
            return report_s
        return LOOK_S if report_s is None else min(report_s, LOOK_S)

    def _open_traces(self) -> Traces | None:
        if not self._exports:
            return None
        try:
            from actors.telemetry.traces import Traces, exporter_of

            traces = Traces(
                self._resource,
                self.drops,
                exporter_of(self._own_file),
                contexts=self._contexts,
                partition_of=self._partition_of,
            )
        except Exception as error:
            _own_log.warning("traces cannot be exported: %s: %s", type(error).__name__, error)
            self.drops.is_failing = True
            return None
        traces.wait_for_room(self._wait_s)
        if self._own_file is not None:
            traces.limit(TraceBudget())
        return traces

    def _tell(self, taken: list[Fact | LeaderChange], traces: Traces | None) -> None:
        facts = [each for each in taken if not isinstance(each, LeaderChange)]
        says_sentences = _log.isEnabledFor(logging.INFO)
        if not says_sentences and traces is None:
            return
        moved = {
            id(fact): count_classic(fact) for fact in facts if isinstance(fact, RebalanceEnded)
        }
        if says_sentences:
            for line, fields in _log_messages(facts, moved):
                _log.info("%s", line, extra=dict(fields))
        if traces is not None:
            skipped = {id(facts[place]) for place in outlived(facts)}
            for each in taken:
                if isinstance(each, LeaderChange):
                    traces.tell_leader(each)
                else:
                    traces.tell(each, moved.get(id(each)), is_outlived=id(each) in skipped)


def exports_traces(environ: Mapping[str, str], own_file: Path | None = None) -> bool:
    """Whether traces are exported, or written to a file: one that is asked for, or the own one."""
    file = file_of(environ) or own_file_of(environ, own_file)
    return _exports("traces", environ) or (file is not None and not is_disabled(environ))


def traces_go(environ: Mapping[str, str], own_file: Path | None = None) -> str:
    """Return where traces go: to a backend, to files, or nowhere."""
    return destination(environ, own_file) if exports_traces(environ, own_file) else NOWHERE


def exports_metrics(environ: Mapping[str, str]) -> bool:
    """Whether the standard variables request an export of metrics that is supported."""
    return _exports("metrics", environ)


def _exports(what: str, environ: Mapping[str, str]) -> bool:
    if is_disabled(environ):
        return False
    signal = what.upper()
    exporter = f"OTEL_{signal}_EXPORTER"
    exporters = [each.strip() for each in environ.get(exporter, "").split(",")]
    if "none" in exporters:
        return False
    wanted = [each for each in exporters if each]
    endpoints = (f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    if not wanted and not any(environ.get(name, "").strip() for name in endpoints):
        return False
    if wanted and "otlp" not in wanted:
        _own_log.warning(
            "%s is %s, but only otlp is supported: exporting no %s", exporter, wanted, what
        )
        return False
    protocol = protocol_of(what, environ)
    if protocol not in TRANSPORTS:
        _own_log.warning(
            "the OTLP protocol %s is not supported, only %s: exporting no %s",
            protocol,
            " and ".join(TRANSPORTS),
            what,
        )
        return False
    return True


def open_metrics(
    resource: Mapping[str, str | int],
    read: Callable[[MetricScope], Parts],
    histograms: Mapping[str, Histogram] = MappingProxyType({}),
    sources: Collection[MetricSource] = (MetricSource.COORDINATOR,),
) -> MetricsExport | None:
    """Start to export the metrics of ``read`` and histograms, if the environment requests it."""
    if not exports_metrics(os.environ):
        return None
    try:
        from actors.telemetry.otlp_metrics import MetricsExport

        return MetricsExport(resource, read, histograms, sources=sources)
    except Exception as error:
        _own_log.warning("metrics cannot be exported: %s: %s", type(error).__name__, error)
        return None


def _size(each: Fact | LeaderChange) -> int:
    return LEADER_CHANGE_BYTES if isinstance(each, LeaderChange) else size_of(each)


def _log_messages(
    facts: Iterable[Fact], moved: Mapping[int, PartitionMovement | None]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Return a line per fact with its fields; many member events of a group share a line."""
    said: Counter[str] = Counter()
    alike: dict[tuple[str, str, str | None], list[MemberEvent]] = {}
    for fact in facts:
        if isinstance(fact, MemberEvent):
            said[fact.group_id] += 1
            if said[fact.group_id] > SAID_SINGLY_MAX:
                alike.setdefault((fact.group_id, fact.kind, fact.reason), []).append(fact)
                continue
        if not isinstance(fact, ResultReplicated):  # a trace tells it
            yield log_message(fact, moved.get(id(fact))), log_fields(fact)
    for events in alike.values():
        first = events[0]
        if len(events) == 1:
            yield log_message(first), log_fields(first)
        else:
            yield log_message_for_many(events), {"group": log_fields(first)["group"]}
