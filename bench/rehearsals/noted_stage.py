"""A stage that notes the faults that it inflicts, and tells when one has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from bench.scenarios.faults import word_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.rehearsals.stages import Stage, Undo
    from bench.scenarios.done_faults import FaultLog


def noted(
    stage: Stage, log: FaultLog, now_ms: Callable[[], float], begun: Callable[[], None]
) -> Stage:
    """Return a stage whose faults are noted in ``log``, by a clock from the begin of the run."""
    return cast("Stage", _NotedStage(stage, log, now_ms, begun))


class _NotedStage:
    def __init__(
        self, stage: Stage, log: FaultLog, now_ms: Callable[[], float], begun: Callable[[], None]
    ) -> None:
        self._stage = stage
        self._log = log
        self._now_ms = now_ms
        self._begun = begun

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)

    def inflict(self, fault: Any, node: int) -> Undo | None:
        """Begin a fault; one that the node cannot suffer now is not noted."""
        at_ms = self._now_ms()
        undo = self._stage.inflict(fault, node)
        number = self._log.began(at_ms, word_of(fault), node)
        self._begun()
        if undo is None:
            return None
        after_ms, end = undo
        return after_ms, lambda: self._end(number, end)

    def _end(self, number: int, end: Callable[[], None]) -> None:
        end()
        self._log.ended(number, self._now_ms())
