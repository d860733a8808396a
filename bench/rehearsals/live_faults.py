"""The faults of a run in real time: each begins and ends when it is due, beside all others.

What a fault needs of the cluster may take long, so threads do it. A fault that no node can suffer
now is tried again for a while, as in virtual time, and so is an end that does not succeed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from actors.errors import CommandError
from bench.client.due_times import is_late
from bench.rehearsals.side_work import SideWork
from bench.scenarios.done_faults import FaultLog
from bench.scenarios.faults import word_of
from bench.scenarios.retries import retry, retry_end
from failover.drills.checked import DrillError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.rehearsals.stages import Stage, Undo
    from bench.scenarios.faults import Fault
    from bench.scenarios.retries import FaultRetry
    from bench.scenarios.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultClock:
    """What faults need of the run: its time, what is due later, who is hit, and who is told.

    ``inflicted`` is called when a fault has begun, by the thread in which it did.
    """

    now_ms: Callable[[], float]
    later: Callable[[int, Callable[[], None]], None]
    coordinator: Callable[[Fault], int | None]
    say: Callable[[int, str], None]
    inflicted: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """What came of a fault, or of its end, and when; ``why`` it did not succeed, or None."""

    at_ms: int
    why: str | None = None
    node: int | None = None
    undo: Undo | None = None


class LiveFaults:
    """All faults of one run; call :meth:`go_on` often while it lasts."""

    def __init__(self, scenario: Scenario, stage: Stage, clock: FaultClock, work: SideWork) -> None:
        self._scenario = scenario
        self._stage = stage
        self._clock = clock
        self._work = work
        self.log = FaultLog()
        """Those that have happened."""
        self.late = 0
        """How many beginnings and ends this machine was late for."""
        self.missed: list[str] = []
        """A sentence for each fault, or end of one, that did not happen."""

    @property
    def is_done(self) -> bool:
        """Whether none is about to begin or to end."""
        return self._work.is_done

    def go_on(self) -> None:
        """See what came of those that were begun; raise what went wrong."""
        self._work.hand_over()

    def begin(self, fault: Fault, due_ms: int) -> None:
        """Inflict a fault; if no node can suffer it now, try again for a while."""
        self._work.begin(
            lambda: self._inflict(fault, due_ms), lambda tried: self._begun(fault, due_ms, tried)
        )

    def _inflict(self, fault: Fault, due_ms: int) -> _Tried:
        """Inflict a fault if the scenario is not over; from any thread."""
        self._count_late(due_ms)
        is_over = due_ms > fault.at and self._clock.now_ms() >= self._scenario.duration
        node = self._clock.coordinator(fault) if fault.node is None else fault.node
        at_ms = int(self._clock.now_ms())
        if node is None or is_over:
            return _Tried(at_ms=at_ms, why="")
        try:
            undo = self._stage.inflict(fault, node)
        except (DrillError, CommandError) as error:
            return _Tried(at_ms=int(self._clock.now_ms()), why=str(error))
        self._clock.inflicted()
        return _Tried(at_ms=at_ms, node=node, undo=undo)

    def _begun(self, fault: Fault, due_ms: int, tried: _Tried) -> None:
        if tried.why is not None:
            tried_ms = max(due_ms, tried.at_ms)
            later = retry(fault, self._scenario, due_ms, tried_ms, tried.why)
            self._again(later, tried_ms, lambda at_ms: self.begin(fault, at_ms))
            return
        assert tried.node is not None
        number = self.log.began(tried.at_ms, word_of(fault), tried.node)
        self._clock.say(tried.at_ms, self.log.said(number))
        if tried.undo is not None:
            after_ms, end = tried.undo
            due_ms = tried.at_ms + after_ms
            self._clock.later(due_ms, lambda: self._end(number, end, due_ms, due_ms))

    def _end(self, number: int, end: Callable[[], None], first_ms: int, due_ms: int) -> None:
        """End a fault; if that does not succeed, try again for a while."""
        said = self.log.said(number)

        def work() -> _Tried:
            self._count_late(due_ms)
            try:
                end()
            except (DrillError, CommandError) as error:
                return _Tried(at_ms=int(self._clock.now_ms()), why=str(error))
            return _Tried(at_ms=int(self._clock.now_ms()))

        def then(tried: _Tried) -> None:
            if tried.why is not None:
                later = retry_end(said, self._scenario, (first_ms, due_ms), tried.at_ms, tried.why)
                again = partial(self._end, number, end, first_ms)
                self._again(later, tried.at_ms, again)
            else:
                self.log.ended(number, tried.at_ms)

        self._work.begin(work, then)

    def _again(self, later: FaultRetry, tried_ms: int, begin: Callable[[int], None]) -> None:
        if later.sentence:
            self._clock.say(tried_ms, later.sentence)
        again_ms = later.again_ms
        if again_ms is None:
            self.missed.append(later.sentence)
        else:
            self._clock.later(again_ms, lambda: begin(again_ms))

    def _count_late(self, due_ms: int) -> None:
        if due_ms < self._scenario.duration and is_late(due_ms, self._clock.now_ms()):
            self.late += 1
