"""When the results of rebalances are replicated: noted at the append, told at the commit."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from protocol.groups.facts import (
    RebalanceEnded,
    RebalanceOutcome,
    ResultReplicated,
    TargetAssigned,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from protocol.groups.facts import Fact

WAITING_MAX: Final = 1_000
"""Results that wait for their commit; beyond it that of the oldest is not told."""


class UnreplicatedResults:
    """The results of rebalances of partition ``number`` that are appended and not committed."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._waiting: deque[ResultReplicated] = deque(maxlen=WAITING_MAX)

    def appended(
        self, facts: Sequence[Fact], groups: Container[str], end_offset: int, now: int
    ) -> None:
        """Note the results among a turn's facts whose groups' records were appended."""
        for fact in facts:
            number = _number_of(fact)
            if number is not None and fact.group_id in groups:
                self._waiting.append(
                    ResultReplicated(
                        group_id=fact.group_id,
                        number=number,
                        partition=self._number,
                        end_offset=end_offset,
                        appended_ms=now,
                        time_ms=now,
                    )
                )

    def committed(self, high_watermark: int, now: int) -> Iterator[ResultReplicated]:
        """Return the results that are committed now."""
        while self._waiting and self._waiting[0].end_offset <= high_watermark:
            yield replace(self._waiting.popleft(), time_ms=now)

    def clear(self) -> None:
        """Forget them: this replica does not lead any more."""
        self._waiting.clear()


def _number_of(fact: Fact) -> int | None:
    """Return the generation or epoch whose records a fact tells of; None: it tells of none."""
    if isinstance(fact, TargetAssigned):
        return fact.epoch_after
    if isinstance(fact, RebalanceEnded) and fact.outcome is not RebalanceOutcome.RESTARTED:
        return fact.generation_after
    return None
