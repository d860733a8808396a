"""Whether a real and a simulated run of a scenario agree, by what each group paid.

Members, failures, and limits that are exceeded are the same. So are the rebalances of a classic
group, and their causes. Groups of the other protocols are assigned in batches
(``group.*.assignment.interval.ms``): a wave of changes that begins a batch is assigned in one or in
two, by where its members are when the first of them is assigned. So their rebalances may differ by
a factor of two, and a rest of a wave has the cause ``other``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.scenarios.checks import protocols_of
from bench.scenarios.values import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.scenarios.scenario import Group

WAVES: Final = 2
"""In so many batches at most a wave of changes is assigned that could be assigned in one."""

REST: Final = "other"
"""The cause of a rebalance without a change of its own."""


class Tolerated(NamedTuple):
    """What may differ between the runs of a group besides, and why."""

    figures: tuple[str, ...]
    why: str


RACE: Final = Tolerated(
    ("causes",),
    "members with the same instance id start at once: who has it first is a matter of luck.",
)
LEADER: Final = Tolerated(
    ("rebalances", "causes"),
    "a pod that crashes may be the leader of the next generation: nobody assigns it then.",
)
EXPIRY: Final = Tolerated(
    ("causes",),
    "the sessions of pods that crashed end while others join: a batch may have both.",
)
REJOIN: Final = Tolerated(
    ("causes",),
    "a cooperative member that rejoins after a revocation may do so while another one joins.",
)
TOLERATED: Final[Mapping[tuple[str, str], Tolerated]] = {
    ("kafka-consumer-migration", "upgrade"): REJOIN,
    ("kafka-consumer-bounce", "modern"): EXPIRY,
    ("kafka-static-bounce", "dynamic"): LEADER,
    ("kafka-static-fencing", "static"): RACE,
    ("kafka-static-fencing", "modern"): RACE,
}
"""By scenario and group."""


def disagreements(
    scenario: str, group: Group, real: Mapping[str, Any], simulated: Mapping[str, Any]
) -> Iterator[str]:
    """Say in which figures the runs of a group disagree.

    A run's figures are ``members``, ``rebalances``, ``causes`` (rebalances by cause), ``failed``
    and ``exceeded``.
    """
    tolerated = TOLERATED.get((scenario, group.name), Tolerated((), ""))
    is_batched = not {None, Protocol.CLASSIC} >= protocols_of(group)
    for figure in ("members", "rebalances", "causes", "failed", "exceeded"):
        values = real[figure], simulated[figure]
        if figure in tolerated.figures or _agree(figure, *values, is_batched=is_batched):
            continue
        yield f"{figure} of {group.name}: real {values[0]}, simulated {values[1]}"


def _agree(figure: str, real: Any, simulated: Any, *, is_batched: bool) -> bool:
    if figure == "exceeded":
        return bool(real) == bool(simulated)
    if not is_batched or figure in ("members", "failed"):
        return bool(real == simulated)
    if figure == "causes":
        return {*real} - {REST} == {*simulated} - {REST}
    return bool(max(real, simulated) <= WAVES * min(real, simulated))
