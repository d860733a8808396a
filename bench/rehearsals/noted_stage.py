"""A stage that notes the faults that it inflicts, and tells when one has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from bench.scenarios.faults import KillCoordinator, word_of

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
        """Begin a fault; a restart is over when this returns."""
        number = self._log.began(self._now_ms(), word_of(fault), node)
        undo = self._stage.inflict(fault, node)
        self._begun()
        if undo is not None:
            after_ms, end = undo
            return after_ms, lambda: self._end(number, end)
        if not isinstance(fault, KillCoordinator):
            self._log.ended(number, self._now_ms())
        return None

    def _end(self, number: int, end: Callable[[], None]) -> None:
        end()
        self._log.ended(number, self._now_ms())
