"""The rebalances of a group that was only watched: when, who came or went, and what moved."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from bench.pages.document import RebalanceSpan
from bench.pages.rebalances import cause_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from failover.drills.observation import GroupSight
    from protocol.wire.embedded import TopicPartition

NOBODY: Final = "no member came or went: a changed topic, subscription or assignment"


@dataclass(slots=True)
class _SightedRebalance:
    """From the last sight ``before`` it to the first one ``after`` it; ``first`` shows it."""

    before: GroupSight
    first: GroupSight
    after: GroupSight


def sighted_rebalances(
    answered: Sequence[GroupSight], began_ms: int, fault_ms: int
) -> list[RebalanceSpan]:
    """Return the rebalances that answered sights show, in order.

    A group with epochs has one where the epoch is another one. A classic group, whose generation is
    not described, has one where it is no longer Stable, or Stable with another assignment: they are
    numbered. One is over when the group is Stable and what its members hold no longer changes.
    """
    found: list[_SightedRebalance] = []
    for before, sight in pairwise(answered):
        last = found[-1] if found else None
        if _begins(before, sight):
            found.append(_SightedRebalance(before, sight, sight))
        elif last is not None and (
            before.held != sight.held or (before is last.after and not before.is_calm)
        ):
            last.after = sight
    return [_span(number, each, began_ms, fault_ms) for number, each in enumerate(found, 1)]


def _begins(before: GroupSight, sight: GroupSight) -> bool:
    if sight.epoch is not None or before.epoch is not None:
        return before.epoch != sight.epoch
    return before.is_calm and (not sight.is_calm or before.held != sight.held)


def _span(number: int, each: _SightedRebalance, began_ms: int, fault_ms: int) -> RebalanceSpan:
    return RebalanceSpan(
        generation=number if each.first.epoch is None else each.first.epoch,
        began_ms=each.before.time_ms - began_ms,
        ended_ms=each.after.time_ms - began_ms,
        cause=_cause(each),
        moved=_moved(each.before, each.after),
        is_initial=each.first.time_ms <= fault_ms,
    )


def _cause(each: _SightedRebalance) -> str:
    before, first, after = each.before, each.first, each.after
    came = [(0, "joined", name) for name in after.held if name not in before.held]
    went = [(0, "was gone", name) for name in before.held if name not in after.held]
    words = cause_of([*went, *came], NOBODY)
    if before.epoch is not None and first.epoch is not None and first.epoch > before.epoch + 1:
        words += f"; epochs {before.epoch + 1} to {first.epoch} came between two answers"
    return words


def _moved(before: GroupSight, after: GroupSight) -> int:
    """Count the partitions that had an owner, and now have one that they did not have."""
    had, have = _owners(before), _owners(after)
    return sum(bool(have.get(partition, set()) - owners) for partition, owners in had.items())


def _owners(sight: GroupSight) -> Mapping[TopicPartition, set[str]]:
    owners: dict[TopicPartition, set[str]] = {}
    for name, partitions in sight.held.items():
        for partition in partitions:
            owners.setdefault(partition, set()).add(name)
    return owners
