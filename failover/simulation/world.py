"""One simulated cluster: a heap of things to come, and everybody they happen to.

True time counts milliseconds from 0. Nobody inside sees it: each node has a clock of its own.
"""

from __future__ import annotations

import random
from collections import Counter
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from failover.simulation.event_log import EventLine, EventLog
from failover.simulation.settings import EPOCH_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from failover.simulation.settings import Settings

_MASK: Final = (1 << 61) - 1


class World:
    """Time, chance and the story of one run.

    ``trace`` is a running hash of everything that happened: two runs of one seed have the same.
    ``injected`` counts faults, ``calls`` the answers to each kind of request and whether anything
    in them went well. ``may_fail``: a handler was made to fail, UNKNOWN_SERVER_ERROR is right; with
    ``poison`` not negative the next one fails, after so many records.
    """

    def __init__(self, seed: int, settings: Settings, *, tells: bool = False) -> None:
        self.seed = seed
        self.settings = settings
        self.now = 0
        self.story = EventLog(tells)
        self.tells = tells
        self.trace = seed
        self.events = 0
        self.faulty = False
        self.injected: Counter[str] = Counter()
        self.calls: Counter[tuple[str, bool]] = Counter()
        self.lawless_until = 0
        self.may_fail = False
        self.poison = -1
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0

    @property
    def is_lawless(self) -> bool:
        """Whether clocks break, or may have broken, what leases rely on."""
        return self.now < self.lawless_until

    def random(self, name: str) -> random.Random:
        """Return the stream of chance called so; streams do not disturb each other."""
        return random.Random(f"{self.seed} {name}")

    @property
    def client_now(self) -> int:
        """The Unix time of clients, whose clocks are right."""
        return EPOCH_MS + self.now

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Do something later; what is due at one time happens in the order it was asked for."""
        self._order += 1
        heappush(self._heap, (self.now + delay_ms, self._order, action, arguments))

    def run(self, until: int) -> None:
        """Let everything happen that is due before ``until``, and be there then."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, order, action, arguments = heappop(heap)
            self.trace = (self.trace * 1_000_003 + self.now * 31 + order) & _MASK
            self.events += 1
            action(*arguments)
        self.now = until

    def mark(self, value: int) -> None:
        """Make a number part of the trace."""
        self.trace = (self.trace * 1_000_003 + value) & _MASK

    def tell(self, subject: str, text: str) -> None:
        """Add a line to the story; ask :attr:`tells` first where making the text costs."""
        if self.tells:
            self.story.lines.append(EventLine(self.now, subject, text))

    def fault(self, kind: str, text: str) -> None:
        """Note that a fault was injected."""
        self.injected[kind] += 1
        if self.tells:
            self.tell("", f"FAULT {kind}: {text}")
