"""Faults that no node can suffer when they are due are tried again for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.scenarios.faults import word_of

if TYPE_CHECKING:
    from bench.scenarios.faults import Fault
    from bench.scenarios.scenario import Scenario

RETRY_MS: Final = 500
WITHIN_MS: Final = 30_000
"""So often, and for so long."""


@dataclass(frozen=True, slots=True)
class FaultRetry:
    """When to try a fault again that no node could suffer, and a sentence to say, or nothing.

    Without a time the fault does not happen: the sentence says why.
    """

    again_ms: int | None
    sentence: str


def retry(fault: Fault, scenario: Scenario, due_ms: int, tried_ms: int) -> FaultRetry:
    """Return what to do about a fault that was due, and that no node could suffer when tried."""
    again_ms = tried_ms + RETRY_MS
    if again_ms > min(fault.at + WITHIN_MS, scenario.duration - 1):
        return FaultRetry(None, _missed(fault, scenario.groups[0].name, tried_ms))
    said = f"{word_of(fault)}: nobody can suffer it now, so it is tried again"
    return FaultRetry(again_ms, said if due_ms == fault.at else "")


def _missed(fault: Fault, first_group: str, tried_ms: int) -> str:
    """Return the sentence about a fault that did not happen, though it was tried until then."""
    if fault.node is None:
        why = f"nobody led the partition of group {fault.group or first_group}"
    else:
        why = f"node {fault.node} was down"
    for_s = (tried_ms - fault.at) / 1000
    return f"{word_of(fault)} at {fault.at / 1000:g} s did not happen: {why} for {for_s:g} s"
