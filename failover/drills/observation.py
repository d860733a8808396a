"""Judge what a drill cost groups that were only observed: the members are somebody else's.

Pure: whoever describes the groups passes in what was seen of them, with times in Unix milliseconds.
What happens between two sights is not seen: two rebalances within one of them count as one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from failover.drills.verdict import SENTENCES_MAX, Verdict, VerdictRow
from protocol.members import promises
from protocol.members.promises import Assigned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from failover.drills.drill import Drill
    from protocol.wire.embedded import TopicPartition

STABLE: Final = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSight:
    """A group as its coordinator described it; ``state`` is None if nobody did.

    ``time_ms`` is when the answer came or was given up. ``epoch`` is None in classic groups.
    ``held`` has the partitions of each member by its lasting name: the instance id of a static
    member, else its member id. ``is_exclusive``: the group gives a partition to one member at a
    time.
    """

    group_id: str
    time_ms: int
    state: str | None = None
    epoch: int | None = None
    held: Mapping[str, frozenset[TopicPartition]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    committed: Mapping[TopicPartition, int] = field(default_factory=lambda: MappingProxyType({}))
    is_exclusive: bool = True
    group_type: str = ""

    @property
    def is_calm(self) -> bool:
        """Whether the group is Stable with members."""
        return self.state == STABLE and bool(self.held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All sights of each group in their order, and when the first fault was."""

    sights: Mapping[str, Sequence[GroupSight]]
    fault_ms: int
    replicated_ms: int | None = None
    """How long after the last fault every replica was in sync; None: that never happened."""


def judge_observed(drill: Drill, seen: Observation) -> Verdict:
    """Judge what was seen by the rules that always apply and by what the drill may cost."""
    found = {name: check(seen) for name, check in OBSERVED_CHECKS.items()}
    of_group = after_fault(seen).values()
    counts = [rebalance_count(after) for after in of_group]
    expect = drill.expect
    rows = [VerdictRow(name=name, value=len(each), limit=0) for name, each in found.items()]
    rows += [
        VerdictRow(name="rebalances", value=sum(counts)),
        VerdictRow(
            name="rebalances of one group",
            value=max(counts, default=0),
            limit=expect.rebalances_max,
        ),
        VerdictRow(
            name="a group without an answer, max ms",
            value=max((longest(each, _is_answered) for each in of_group), default=0),
            limit=expect.silent_ms_max,
        ),
        VerdictRow(
            name="a group not Stable, max ms",
            value=max((longest(each, _is_calm) for each in of_group), default=0),
        ),
        VerdictRow(
            name="to full replication, ms",
            value=seen.replicated_ms,
            limit=expect.replicated_ms_max,
        ),
        VerdictRow(
            name="members", value=sum(len(last_answered(s).held) for s in seen.sights.values())
        ),
        VerdictRow(
            name="sights of the groups", value=sum(map(len, seen.sights.values()))
        ),
    ]  # fmt: skip
    complaints = [sentence for each in found.values() for sentence in each[:SENTENCES_MAX]]
    return Verdict(drill=drill.name, rows=tuple(rows), complaints=tuple(complaints))


# --- what must never happen


def owned_twice(seen: Observation) -> list[str]:
    """Find partitions that a sight shows with two members."""
    found = []
    for group_id, sights in seen.sights.items():
        assigned = (
            Assigned(sight.time_ms, number, name, [*partitions])
            for number, sight in enumerate(sights)
            if sight.is_exclusive
            for name, partitions in sight.held.items()
        )
        twice = {
            (_shown(each.partition), ", ".join(each.owners))
            for each in promises.owned_twice(assigned)
        }
        found += [f"{partition} of {group_id} had {names}" for partition, names in sorted(twice)]
    return found


def offsets_backward(seen: Observation) -> list[str]:
    """Find committed offsets that became smaller or were gone; an application may seek back."""
    found = []
    for group_id, sights in seen.sights.items():
        answered = [sight for sight in sights if sight.state is not None]
        for before, after in pairwise(answered):
            found += [
                f"{_shown(partition)} of {group_id}: {offset} was committed,"
                f" then {after.committed.get(partition, 'nothing')}"
                for partition, offset in before.committed.items()
                if after.committed.get(partition, -1) < offset
            ]
    return found


def epochs_backward(seen: Observation) -> list[str]:
    """Find groups whose epoch became smaller."""
    found = []
    for group_id, sights in seen.sights.items():
        epochs = [(sight.epoch, True) for sight in sights if sight.epoch is not None]
        found += [
            f"{group_id} was in epoch {before} and then in {after}"
            for before, after in promises.backward(epochs)
        ]
    return found


def gone_members(seen: Observation) -> list[str]:
    """Find members of before the first fault that are not there in the end."""
    found = []
    for group_id, sights in seen.sights.items():
        there = last_answered(sights).held
        found += [
            f"{name} of {group_id} is no longer a member"
            for name in sorted(_before(seen, sights).held)
            if name not in there
        ]
    return found


def without_owner(seen: Observation) -> list[str]:
    """Find partitions that had an owner before the first fault and have none in the end."""
    found = []
    for group_id, sights in seen.sights.items():
        before, after = (
            _partitions(each) for each in (_before(seen, sights), last_answered(sights))
        )
        found += [f"nobody has {_shown(each)} of {group_id}" for each in sorted(before - after)]
    return found


OBSERVED_CHECKS: Final[Mapping[str, Callable[[Observation], list[str]]]] = MappingProxyType(
    {
        "partitions with two owners": owned_twice,
        "offsets gone backward": offsets_backward,
        "epochs gone backward": epochs_backward,
        "members gone or with a new id": gone_members,
        "partitions without an owner": without_owner,
    }
)
"""What must never happen to somebody's group; each check returns sentences."""


# --- what it may cost


def rebalance_count(sights: Sequence[GroupSight]) -> int:
    """Count the rebalances: another epoch, or another assignment after the group was Stable."""
    answered = [sight for sight in sights if sight.state is not None]
    if answered and answered[0].epoch is not None:
        return sum(before.epoch != after.epoch for before, after in pairwise(answered))
    count, calm = 0, None
    is_counted = False
    for sight in answered:
        if not sight.is_calm:
            count += not is_counted
            is_counted = True
            continue
        if calm is not None and sight.held != calm and not is_counted:
            count += 1
        calm, is_counted = sight.held, False
    return count


def longest(after: Sequence[GroupSight], holds: Callable[[GroupSight], bool]) -> int:
    """Return the longest time from the first of a group's sights on in which none fits.

    It runs from the last sight before it to the first one after it, so it includes the time from
    one sight to the next.
    """
    times = [sight.time_ms for sight in after if holds(sight)]
    times = [after[0].time_ms, *times, after[-1].time_ms]
    return max(end - begin for begin, end in pairwise(times))


def _is_answered(sight: GroupSight) -> bool:
    return sight.state is not None


def _is_calm(sight: GroupSight) -> bool:
    return sight.is_calm


def after_fault(seen: Observation) -> dict[str, list[GroupSight]]:
    """Return the sights from the last one before the first fault on."""
    return {
        group_id: [
            _before(seen, sights),
            *(sight for sight in sights if sight.time_ms > seen.fault_ms),
        ]
        for group_id, sights in seen.sights.items()
    }


def _before(seen: Observation, sights: Sequence[GroupSight]) -> GroupSight:
    """Return the last answered sight before the first fault."""
    known = [s for s in sights if s.state is not None and s.time_ms <= seen.fault_ms]
    return known[-1] if known else sights[0]


def last_answered(sights: Sequence[GroupSight]) -> GroupSight:
    """Return the last answered sight."""
    return next((each for each in reversed(sights) if each.state is not None), sights[-1])


def _partitions(sight: GroupSight) -> set[TopicPartition]:
    return {partition for partitions in sight.held.values() for partition in partitions}


def _shown(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
