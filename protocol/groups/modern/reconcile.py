"""Reconciliation: from a member's current partitions to its target, step by step.

Set algebra only. A member first revokes the partitions that it should not have, and keeps its epoch
until it has done so. Then it moves to the target's epoch and gets the partitions that no other
member holds; it gets the others later. So no partition ever has two owners.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from protocol.groups.topic_numbers import TOPIC_SHIFT
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set

    from protocol.groups.topic_numbers import Partition


class MemberState(IntEnum):
    """A member's progress towards the target; the numbers are those of the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has to revoke partitions, and the group waits for that."""
    UNRELEASED_PARTITIONS = 2
    """It is at the target's epoch, but others still hold some of its partitions."""
    UNKNOWN = 127
    """Written by a newer version: the member must start over."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:  # noqa: ARG003 - Enum requires this signature
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """A member's current assignment: partitions map to the epoch in which it got them."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Mapping[Partition, int]
    revoking: Mapping[Partition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileInput:
    """A member's target, and what is known about the member.

    ``owned`` are the partitions that the member itself reports, None when it does not report them.
    ``is_subscribed`` returns, by a topic's number, whether the member subscribes to it; ``is_free``
    whether no other member holds a partition; None: that does not matter, and nobody waits.
    ``has_changed``: the subscription is new. ``partition_epoch`` is the assignment epoch of new
    partitions; None: ``epoch``. ``in_place`` returns what a member may get in the stead of
    something that it holds, without giving it up first. ``noun`` and ``units`` name the group's
    type and what members hold, for a message.
    """

    epoch: int
    target: Set[Partition]
    owned: Set[Partition] | None
    is_subscribed: Callable[[int], bool]
    is_free: Callable[[Partition], bool] | None
    has_changed: bool = False
    partition_epoch: int | None = None
    in_place: Callable[[Partition], Iterable[Partition]] | None = None
    noun: str = "consumer"
    units: str = "partitions"


def reconcile(now: MemberAssignment, inputs: ReconcileInput) -> MemberAssignment:
    """Take the next step; return the same object when there is none to take."""
    if now.state is MemberState.STABLE and now.epoch == inputs.epoch:
        return _without_unsubscribed(now, inputs) if inputs.has_changed else now
    if now.state is MemberState.UNREVOKED_PARTITIONS and _holds(inputs, now.revoking):
        return _without_unsubscribed(now, inputs) if inputs.has_changed else now
    if now.state is MemberState.UNKNOWN:
        if inputs.owned is None or inputs.owned:
            raise KafkaError(
                ErrorCode.fenced_member_epoch,
                f"The {inputs.noun} group member is in a unknown state."
                f" The member must abandon all its {inputs.units} and rejoin.",
            )
        now = replace(now, epoch=inputs.epoch)
    return _towards_target(now, inputs)


def _towards_target(now: MemberAssignment, inputs: ReconcileInput) -> MemberAssignment:
    target = _subscribed(inputs.target, inputs)
    is_free = inputs.is_free
    since = inputs.epoch if inputs.partition_epoch is None else inputs.partition_epoch
    if is_free is None:
        has_all = now.assigned.keys() == target
        assigned = now.assigned if has_all else dict.fromkeys(target, since)
        after = MemberAssignment(inputs.epoch, now.epoch, MemberState.STABLE, assigned, {})
        return _changed(now, after)
    kept = {partition: now.assigned[partition] for partition in now.assigned.keys() & target}
    changing: dict[Partition, Partition] = {}
    if len(kept) < len(now.assigned):
        leaving = {p: epoch for p, epoch in now.assigned.items() if p not in kept}
        changing = _changing_in_place(leaving, target, inputs)
        if leaving and _holds(inputs, leaving):
            state = MemberState.UNREVOKED_PARTITIONS
            kept.update((p, now.assigned[p]) for p in changing.values())
            return _changed(now, MemberAssignment(now.epoch, now.epoch, state, kept, leaving))
    wanted = target - kept.keys()
    free = [p for p in wanted if p in now.revoking or is_free(p)]
    state = MemberState.STABLE
    if len(free) < len(wanted):
        state = MemberState.UNRELEASED_PARTITIONS
        waiting = set(wanted).difference(free)
        kept.update((p, now.assigned[p]) for after, p in changing.items() if after in waiting)
    assigned = now.assigned  # keep the same object while its content is the same
    if free or len(kept) < len(assigned):
        kept.update(dict.fromkeys(free, since))
        assigned = kept
    return _changed(now, MemberAssignment(inputs.epoch, now.epoch, state, assigned, {}))


def _changing_in_place(
    leaving: dict[Partition, int], target: Set[Partition], inputs: ReconcileInput
) -> dict[Partition, Partition]:
    """Take out what the member keeps until it gets the same in another role; return it by that."""
    if inputs.in_place is None:
        return {}
    changing: dict[Partition, Partition] = {}
    for partition in leaving:
        for after in inputs.in_place(partition):
            if after in target:
                changing[after] = partition
                break
    for partition in changing.values():
        del leaving[partition]
    return changing


def _without_unsubscribed(now: MemberAssignment, inputs: ReconcileInput) -> MemberAssignment:
    """Revoke topics that the member no longer subscribes to, whatever the target has."""
    foreign = _foreign(now.assigned, inputs)
    if not foreign:
        return now
    kept: dict[Partition, int] = {}
    leaving: dict[Partition, int] = {}
    for partition, epoch in now.assigned.items():
        (leaving if partition >> TOPIC_SHIFT in foreign else kept)[partition] = epoch
    revoking = {**now.revoking, **leaving}
    if _holds(inputs, revoking):
        return MemberAssignment(
            now.epoch, now.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking
        )
    return MemberAssignment(now.epoch, now.epoch, now.state, kept, now.revoking)


def _subscribed(target: Set[Partition], inputs: ReconcileInput) -> Set[Partition]:
    foreign = _foreign(target, inputs)
    if not foreign:
        return target
    return {partition for partition in target if partition >> TOPIC_SHIFT not in foreign}


def _foreign(partitions: Iterable[Partition], inputs: ReconcileInput) -> set[int]:
    """Return the topics, by number, that the member does not subscribe to."""
    topics = {partition >> TOPIC_SHIFT for partition in partitions}
    return {topic for topic in topics if not inputs.is_subscribed(topic)}


def _holds(inputs: ReconcileInput, partitions: Mapping[Partition, int]) -> bool:
    """Whether the member may still hold any of these; True if it does not report what it owns."""
    owned = inputs.owned
    return owned is None or not owned.isdisjoint(partitions)


def _changed(before: MemberAssignment, after: MemberAssignment) -> MemberAssignment:
    return before if before == after else after
