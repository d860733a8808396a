"""The rebalances of one group: when, why, and what moved, as far as its members saw it.

The cause is what happened to members between the generation before and this one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.pages.document import RebalanceSpan
from protocol.members.history import MemberHistoryKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.scenarios.record import LifeRecord, ScenarioRecord

NAMES_MAX: Final = 2
"""A cause names at most this many members, and counts the others."""

NOBODY: Final = "no member came, went or subscribed: a changed topic or assignment"
TOLD: Final = frozenset({MemberHistoryKind.JOINED, MemberHistoryKind.ASSIGNED})


@dataclass(slots=True)
class _Generation:
    """When members first heard of it, and when each first had its assignment."""

    heard_ms: int
    assigned_ms: dict[int, int] = field(default_factory=dict)


def rebalances(
    record: ScenarioRecord,
    lives: Sequence[LifeRecord],
    session_timeout_ms: int,
    moves_ms: Sequence[int],
) -> list[RebalanceSpan]:
    """Return the generations that members were given assignments in, in order.

    ``moves_ms`` are when partitions came to another owner, since the run began.
    """
    generations = _generations(lives)
    changes = sorted(
        [
            *_changes(lives, session_timeout_ms),
            *(
                (at_ms, "changed the subscription", each.life.name)
                for each in lives
                for at_ms in each.subscribed_ms
            ),
        ]
    )
    asked = sorted(
        event.time_ms
        for each in lives
        for event in each.timeline.events
        if event.kind is MemberHistoryKind.REBALANCING
    )
    moves = sorted(moves_ms)
    spans = []
    before_ms = -1
    for generation, told in sorted(generations.items()):
        if not told.assigned_ms:
            continue
        first = bisect_right(changes, before_ms, key=_when)
        why = changes[first : bisect_right(changes, told.heard_ms, key=_when)]
        began = [change[0] for change in why[:1]]
        index = bisect_right(asked, before_ms)
        began += [moment for moment in asked[index : index + 1] if moment <= told.heard_ms]
        began_ms = min(began, default=told.heard_ms) - record.began_ms
        starts_ms = min(told.assigned_ms.values())
        ended_ms = _ended_ms(told, lives) - record.began_ms
        starts = starts_ms - record.began_ms
        spans.append(
            RebalanceSpan(
                generation=generation,
                began_ms=began_ms,
                ended_ms=max(ended_ms, began_ms),
                cause=cause_of(why),
                moved=bisect_right(moves, ended_ms) - bisect_left(moves, starts),
                is_initial=starts_ms < record.changed_ms,
            )
        )
        before_ms = told.heard_ms
    return spans


def _ended_ms(told: _Generation, lives: Sequence[LifeRecord]) -> int:
    """Return when the last member had its assignment.

    Members that started after the first one had it came back later, into the same generation.
    """
    starts_ms = min(told.assigned_ms.values())
    return max(
        moment
        for number, moment in told.assigned_ms.items()
        if moment == starts_ms or lives[number].started_ms <= starts_ms
    )


def _when(change: tuple[int, str, str]) -> int:
    return change[0]


def _generations(lives: Iterable[LifeRecord]) -> dict[int, _Generation]:
    found: dict[int, _Generation] = {}
    for number, each in enumerate(lives):
        for event in each.timeline.events:
            if event.kind not in TOLD or event.generation < 0:
                continue
            told = found.get(event.generation)
            if told is None:
                told = found[event.generation] = _Generation(event.time_ms)
            told.heard_ms = min(told.heard_ms, event.time_ms)
            if event.kind is MemberHistoryKind.ASSIGNED:
                told.assigned_ms.setdefault(number, event.time_ms)
    return found


def _changes(
    lives: Sequence[LifeRecord], session_timeout_ms: int
) -> Iterator[tuple[int, str, str]]:
    """Yield what changed a group's members: when, what, and who."""
    of_name: dict[str, list[LifeRecord]] = {}
    for each in lives:
        of_name.setdefault(each.life.name, []).append(each)
    for each in lives:
        name, is_static = each.life.name, each.timeline.is_static
        if not is_static or not any(
            _is_followed(other, each, session_timeout_ms) for other in of_name[name]
        ):
            yield each.started_ms, "joined", name
        ended_ms, has_left = each.ended_ms, False
        for event in each.timeline.events:
            if event.kind is MemberHistoryKind.LOST:
                yield event.time_ms, "was no longer known", name
            elif event.kind is MemberHistoryKind.FAILED:
                yield event.time_ms, "failed", name
                has_left = True
            elif event.kind is MemberHistoryKind.LEFT and not is_static:
                yield event.time_ms, "left", name
                has_left = True
        if ended_ms is None or has_left:
            continue
        if not is_static or not any(
            _is_followed(each, other, session_timeout_ms) for other in of_name[name]
        ):
            yield ended_ms + session_timeout_ms, "was not heard for a session timeout", name


def _is_followed(before: LifeRecord, after: LifeRecord, session_timeout_ms: int) -> bool:
    """Return whether a life took over an instance id in time, so that the group saw no change."""
    if before.life == after.life or before.started_ms > after.started_ms:
        return False
    return before.ended_ms is None or after.started_ms <= before.ended_ms + session_timeout_ms


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
