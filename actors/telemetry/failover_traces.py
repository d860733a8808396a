"""Failovers as traces, each with links to the rebalances that it touched.

A failover is the begin of a leadership: of one partition on one node. Most touch no rebalance. The
links of a span are fixed when it ends, so a failover is told when no rebalance can be counted to it
any more. What is known of it comes from two sides, in any order: from the change of the leader, and
from rebalances just after it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanContext, TraceFlags

from failover.partition_kinds import kind_of, title_of
from protocol.stories.causes import FAILOVER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actors.logs.leader_changes import LeaderChange
    from actors.telemetry.rebalance_spans import Attributes

LINKS_MAX: Final = 100
"""The rebalances that a failover is linked to; the others are counted."""

KEPT_MAX: Final = 1_000
TOLD_AFTER_MS: Final = 2 * FAILOVER_MS
"""How long a failover waits for rebalances that it touched to end."""


@dataclass(slots=True, eq=False)
class Failover:
    """When a node took a partition over (Unix ms), and the rebalances after it.

    ``context`` is its span. ``change`` is None as long as only a rebalance has told of it.
    """

    partition: int | None
    elected_ms: int
    ended_ms: int
    context: SpanContext
    change: LeaderChange | None = None
    links: list[SpanContext] = field(default_factory=list)
    touched: int = 0
    is_told: bool = False

    def touch(self, rebalance: SpanContext, ended_ms: int) -> None:
        """Count a rebalance."""
        self.touched += 1
        self.ended_ms = max(self.ended_ms, ended_ms)
        if len(self.links) < LINKS_MAX:
            self.links.append(rebalance)

    @property
    def attributes(self) -> Attributes:
        """The attributes of the span, but for who leads now."""
        said: dict[str, str | int | float | None] = {
            "messaging.system": "kafka",
            "rollcall.failover.rebalances": self.touched,
        }
        if self.partition is not None:
            kind = kind_of(self.partition)
            said["rollcall.failover.partition"] = title_of(self.partition)
            if kind.topic is not None:
                said["messaging.destination.name"] = kind.topic
                said["messaging.destination.partition.id"] = str(kind.index(self.partition))
        if self.change is not None:
            said["rollcall.failover.epoch"] = self.change.epoch
            said["rollcall.failover.reason"] = self.change.reason
            said["rollcall.failover.node.before"] = (
                self.change.node if self.change.node >= 0 else None
            )
        return said


class Failovers:
    """The last ones: those that are not told yet, and those that a rebalance may still link to."""

    def __init__(self) -> None:
        self._kept: deque[Failover] = deque()
        self._of: dict[int | None, list[Failover]] = {}

    def at(self, partition: int | None, elected_ms: int) -> Failover:
        """Return the failover of a partition at about that time; a new one if none is known."""
        known = _nearest(self._of.get(partition, ()), elected_ms)
        return self._add(partition, elected_ms) if known is None else known

    def began(self, change: LeaderChange) -> None:
        """Add what is known of a leadership that begins."""
        told_by_a_rebalance = [
            each for each in self._of.get(change.partition, ()) if each.change is None
        ]
        known = _nearest(told_by_a_rebalance, change.at_ms)
        failover = self._add(change.partition, change.at_ms) if known is None else known
        failover.change = change

    def take_due(self, now_ms: int | None) -> Iterator[Failover]:
        """Return those that are to be told at a time (Unix ms), each once; None: all.

        If there are too many, the oldest are told earlier, and forgotten.
        """
        while len(self._kept) > KEPT_MAX:
            oldest = self._kept.popleft()
            of_partition = self._of[oldest.partition]
            of_partition.remove(oldest)
            if not of_partition:
                del self._of[oldest.partition]
            if not oldest.is_told:
                yield oldest
        for failover in self._kept:
            is_due = now_ms is None or now_ms - failover.elected_ms >= TOLD_AFTER_MS
            if is_due and not failover.is_told:
                failover.is_told = True
                yield failover

    def _add(self, partition: int | None, elected_ms: int) -> Failover:
        failover = Failover(partition, elected_ms, elected_ms, _new_context())
        self._kept.append(failover)
        self._of.setdefault(partition, []).append(failover)
        return failover


def _nearest(failovers: Sequence[Failover], at_ms: int) -> Failover | None:
    """Return the one at about a time: groups and log lines may have it from different clocks."""
    near = [each for each in failovers if abs(each.elected_ms - at_ms) < FAILOVER_MS]
    return min(near, key=lambda each: abs(each.elected_ms - at_ms), default=None)


def _new_context() -> SpanContext:
    drawn = RandomIdGenerator()
    trace_id, span_id = drawn.generate_trace_id(), drawn.generate_span_id()
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=flags)
