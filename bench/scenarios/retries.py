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


def retry(
    fault: Fault, scenario: Scenario, due_ms: int, tried_ms: int, why: str = ""
) -> FaultRetry:
    """Return what to do about a fault that was due, and that no node could suffer when tried.

    ``why`` it could not, in a sentence, where something said so.
    """
    again_ms = _again(fault.at, tried_ms, scenario)
    if again_ms is None:
        return FaultRetry(None, _missed(fault, scenario.groups[0].name, tried_ms, why))
    said = f"{word_of(fault)}: nobody can suffer it now, so it is tried again"
    return FaultRetry(again_ms, said if due_ms == fault.at else "")


def retry_end(
    said: str, scenario: Scenario, due_ms: tuple[int, int], tried_ms: int, why: str
) -> FaultRetry:
    """Return what to do about a fault, said in words, that did not end, and ``why``.

    ``due_ms``: when its end was due first, and this time.
    """
    first_ms, this_ms = due_ms
    again_ms = _again(first_ms, tried_ms, scenario)
    if again_ms is None:
        return FaultRetry(None, f"{said} did not end at {first_ms / 1000:g} s: {_plain(why)}")
    told = f"{said} cannot end now, so it is tried again: {_plain(why)}"
    return FaultRetry(again_ms, told if this_ms == first_ms else "")


def _again(first_ms: int, tried_ms: int, scenario: Scenario) -> int | None:
    again_ms = tried_ms + RETRY_MS
    return None if again_ms > min(first_ms + WITHIN_MS, scenario.duration - 1) else again_ms


def _missed(fault: Fault, first_group: str, tried_ms: int, said: str) -> str:
    """Return the sentence about a fault that did not happen, though it was tried until then."""
    for_s = (tried_ms - fault.at) / 1000
    if said:
        why = f"it was tried for {for_s:g} s, at last: {_plain(said)}"
    elif fault.node is None:
        why = f"nobody led the partition of group {fault.group or first_group} for {for_s:g} s"
    else:
        why = f"node {fault.node} was down for {for_s:g} s"
    return f"{word_of(fault)} at {fault.at / 1000:g} s did not happen: {why}"


def _plain(sentence: str) -> str:
    return sentence.rstrip(".")
