"""One simulated cluster: a heap of future events, and the objects they affect.

True time counts milliseconds from 0. No node sees it: each has its own clock.
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
    """Time, randomness and the event log of one run.

    ``trace`` is a running hash of everything that happened: two runs of one seed have the same.
    ``injected`` counts faults, ``calls`` the answers to each kind of request and whether anything
    in them went well. ``may_fail``: a handler was made to fail, so UNKNOWN_SERVER_ERROR is correct;
    if ``poison`` is not negative, the next handler fails after that many records. ``ahead_ms`` is
    how far :attr:`now` is ahead of all other nodes, while one is in a turn that takes time.
    """

    def __init__(self, seed: int, settings: Settings, *, tells: bool = False) -> None:
        self.seed = seed
        self.settings = settings
        self.now = 0
        self.ahead_ms = 0
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
        """Whether clocks break, or may have broken, the assumptions of leases."""
        return self.now - self.ahead_ms < self.lawless_until

    def random(self, name: str) -> random.Random:
        """Return the random stream of this name; streams do not affect each other."""
        return random.Random(f"{self.seed} {name}")

    @property
    def client_now(self) -> int:
        """The Unix time of clients, whose clocks are correct."""
        return EPOCH_MS + self.now

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call something later; calls due at the same time run in the order of scheduling."""
        self._order += 1
        heappush(self._heap, (self.now + delay_ms, self._order, action, arguments))

    def go_ahead(self, duration_ms: int) -> None:
        """Let what follows in this event happen later, until :meth:`come_back`."""
        self.now += duration_ms
        self.ahead_ms += duration_ms

    def come_back(self) -> int:
        """Return to the time of the event; return how long it has taken."""
        took_ms, self.ahead_ms = self.ahead_ms, 0
        self.now -= took_ms
        return took_ms

    def run(self, until: int) -> None:
        """Run everything that is due before ``until``, and advance the time to it."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, order, action, arguments = heappop(heap)
            self.trace = (self.trace * 1_000_003 + self.now * 31 + order) & _MASK
            self.events += 1
            action(*arguments)
        self.now = until

    def mark(self, value: int) -> None:
        """Add a number to the trace."""
        self.trace = (self.trace * 1_000_003 + value) & _MASK

    def tell(self, subject: str, text: str) -> None:
        """Add a line to the event log; check :attr:`tells` first where the text is costly."""
        if self.tells:
            self.story.lines.append(EventLine(self.now, subject, text))

    def fault(self, kind: str, text: str) -> None:
        """Note that a fault was injected."""
        self.injected[kind] += 1
        if self.tells:
            self.tell("", f"FAULT {kind}: {text}")
