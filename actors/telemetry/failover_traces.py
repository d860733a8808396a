"""Failovers as traces, each with links to the rebalances that it touched.

Most failovers touch no rebalance, and have no trace. The links of a span are fixed when it ends, so
a failover is told when no rebalance can be counted to it any more.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from protocol.stories.causes import FAILOVER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.trace import SpanContext

LINKS_MAX: Final = 100
"""The rebalances that a failover is linked to; the others are counted."""

WAITING_MAX: Final = 1_000
TOLD_AFTER_MS: Final = 2 * FAILOVER_MS
"""How long a failover waits for rebalances that it touched to end."""


@dataclass(slots=True)
class Failover:
    """When a node took over (Unix ms), and the rebalances after it; ``context`` is its span."""

    elected_ms: int
    context: SpanContext
    ended_ms: int
    links: list[SpanContext] = field(default_factory=list)
    touched: int = 0

    def touch(self, rebalance: SpanContext, ended_ms: int) -> None:
        """Count a rebalance."""
        self.touched += 1
        self.ended_ms = max(self.ended_ms, ended_ms)
        if len(self.links) < LINKS_MAX:
            self.links.append(rebalance)


class Failovers:
    """Those that touched a rebalance and are not told yet, by the time of the takeover."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Failover] = OrderedDict()

    def at(self, elected_ms: int) -> Failover | None:
        """Return the failover of that time; None if it has not touched anything yet."""
        return self._waiting.get(elected_ms)

    def add(self, failover: Failover) -> Failover | None:
        """Add a failover; return the oldest one if there are too many."""
        self._waiting[failover.elected_ms] = failover
        return self._waiting.popitem(last=False)[1] if len(self._waiting) > WAITING_MAX else None

    def take_due(self, now_ms: int | None) -> Iterator[Failover]:
        """Return and forget those that are due at a time (Unix ms); None: all."""
        for elected_ms in [*self._waiting]:
            if now_ms is None or now_ms - elected_ms >= TOLD_AFTER_MS:
                yield self._waiting.pop(elected_ms)

    def __bool__(self) -> bool:
        return bool(self._waiting)
