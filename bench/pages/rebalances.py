"""The rebalances of one group: when, why, and what moved, as far as its members saw it.

The cause is that of the verdict (:mod:`bench.scenarios.inference`), with the members' names.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from bench.pages.document import RebalanceSpan
from bench.scenarios.inference import InferredCause, caused_generations
from protocol.members.history import MemberHistoryKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.scenarios.inference import CausedGeneration
    from bench.scenarios.record import LifeRecord, ScenarioRecord

NAMES_MAX: Final = 2
"""A cause names at most this many members, and counts the others."""

NOBODY: Final = "nothing new that members did: the rest of a change before, or a changed topic"
VERBS: Final[Mapping[InferredCause, str]] = {
    InferredCause.JOINED: "joined",
    InferredCause.LEFT: "left",
    InferredCause.SUBSCRIBED: "changed the subscription",
    InferredCause.REVOKED: "gave partitions up",
    InferredCause.EXPIRED: "was not heard for a session timeout",
    InferredCause.RETURNED: "came back",
}
"""What members did, by the cause; of ``OTHER`` nothing is known."""


def rebalances(
    record: ScenarioRecord, lives: Sequence[LifeRecord], moves_ms: Sequence[int]
) -> list[RebalanceSpan]:
    """Return the generations that members were given assignments in, in order.

    ``moves_ms`` are when partitions came to another owner, since the run began.
    """
    assigned = _assigned(lives)
    asked = sorted(
        event.time_ms
        for each in lives
        for event in each.timeline.events
        if event.kind is MemberHistoryKind.REBALANCING
    )
    moves = sorted(moves_ms)
    spans = []
    before_ms = -1
    for caused in caused_generations(lives, record.sessions):
        assigned_ms = assigned[caused.generation]
        starts_ms = min(assigned_ms.values())
        began_ms = _began_ms(caused, before_ms, asked) - record.began_ms
        ended_ms = _ended_ms(assigned_ms, lives) - record.began_ms
        starts = starts_ms - record.began_ms
        spans.append(
            RebalanceSpan(
                generation=caused.generation,
                began_ms=began_ms,
                ended_ms=max(ended_ms, began_ms),
                cause=cause_of(
                    [(each.began_ms, VERBS[each.cause], each.name) for each in caused.changes]
                ),
                moved=bisect_right(moves, ended_ms) - bisect_left(moves, starts),
                is_initial=starts_ms < record.changed_ms,
            )
        )
        before_ms = caused.told_ms
    return spans


def _began_ms(caused: CausedGeneration, before_ms: int, asked: Sequence[int]) -> int:
    """Return when a rebalance began: with a change since the one before, or a member asked to it.

    ``asked`` is when members were asked to join again, in order.
    """
    index = bisect_right(asked, before_ms)
    moments = [*asked[index : index + 1], *(each.began_ms for each in caused.changes)]
    return min(
        (each for each in moments if before_ms < each <= caused.told_ms), default=caused.told_ms
    )


def _assigned(lives: Iterable[LifeRecord]) -> dict[int, dict[int, int]]:
    """Return when each life, by its place, first had its assignment of each generation."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for number, each in enumerate(lives):
        for event in each.timeline.events:
            if event.kind is MemberHistoryKind.ASSIGNED:
                found[event.generation].setdefault(number, event.time_ms)
    return found


def _ended_ms(assigned_ms: Mapping[int, int], lives: Sequence[LifeRecord]) -> int:
    """Return when the last member had its assignment.

    Members that started after the first one had it came back later, into the same generation.
    """
    starts_ms = min(assigned_ms.values())
    return max(
        moment
        for number, moment in assigned_ms.items()
        if moment == starts_ms or lives[number].started_ms <= starts_ms
    )


def cause_of(why: Sequence[tuple[int, str, str]], nobody: str = NOBODY) -> str:
    """Return in words what changed a group's members (when, what, who); ``nobody``: nothing."""
    if not why:
        return nobody
    words = []
    for verb in dict.fromkeys(verb for _, verb, _ in why):
        names = [*Counter(name for _, each, name in why if each == verb)]
        shown = ", ".join(names[:NAMES_MAX])
        if len(names) > NAMES_MAX:
            shown += f" and {len(names) - NAMES_MAX:,} more"
        words.append(f"{shown} {verb if len(names) == 1 else verb.replace('was ', 'were ')}")
    return "; ".join(words)
