"""Trace contexts of assignor runs: given to workers in the form of W3C's ``traceparent``.

A rebalance's trace is sent when the rebalance has ended. What a worker tells of its run, it tells
before that. So the ids of the trace, and of the span that the run belongs to, are drawn when the
run begins, and the trace takes them later.
"""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from typing import Final, NamedTuple

KEPT_MAX: Final = 10_000
"""Runs whose trace is still to come; beyond it the oldest one's trace has other ids."""

_PARTS: Final = 4
_SAMPLED: Final = "01"


class RunContext(NamedTuple):
    """The ids of a rebalance's trace, and of the span of its run."""

    trace_id: int
    span_id: int

    def traceparent(self) -> str:
        """Return the context as a header has it; whether it is sampled, each process decides."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{_SAMPLED}"


def read(traceparent: str) -> RunContext | None:
    """Return a context from its text; None if it is none."""
    parts = traceparent.split("-")
    if len(parts) != _PARTS or len(parts[1]) != 32 or len(parts[2]) != 16:
        return None
    try:
        found = RunContext(int(parts[1], 16), int(parts[2], 16))
    except ValueError:
        return None
    return found if found.trace_id and found.span_id else None


class RunContexts:
    """The contexts of runs under way; two threads use them."""

    def __init__(self) -> None:
        self._random = random.Random()  # no secrets: ids that do not collide
        self._known: OrderedDict[tuple[str, int], RunContext] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, group_id: str, run: int) -> str:
        """Draw the context of a run that begins; return it as text."""
        drawn = RunContext(self._random.getrandbits(128) or 1, self._random.getrandbits(64) or 1)
        with self._lock:
            self._known[group_id, run] = drawn
            if len(self._known) > KEPT_MAX:
                self._known.popitem(last=False)
        return drawn.traceparent()

    def take(self, group_id: str, run: int) -> RunContext | None:
        """Return and forget the context of a run; None if it was not given to a worker."""
        with self._lock:
            return self._known.pop((group_id, run), None)
