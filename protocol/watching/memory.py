"""What has happened in a group since its last target, as far as its records told it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from protocol.groups.facts import MemberEvent, TopicsCause
    from protocol.groups.modern.reconcile import MemberAssignment


class EpochChange(NamedTuple):
    """When a group first changed since its last target (Unix ms), why, and how that is known."""

    since_ms: int
    cause: MemberEvent | TopicsCause | None
    inferred: str


class Gone(NamedTuple):
    """A member whose records went: as it was, what it had, and when it went (Unix ms)."""

    member_id: str
    member: Any
    held: MemberAssignment
    time_ms: int


@dataclass(slots=True)
class ModernMemory:
    """Since the last target: ``changes`` by epoch, ``before`` and ``after`` it members' targets.

    Since the last epoch: ``candidates`` to be its cause, ``hints`` (records of the group itself),
    ``gone`` members. ``members`` are the metadata of those that are gone, ``held`` what members had
    whose records begin to go. ``assigned_ms``: when the target took effect that members are taking
    over. ``told_epoch`` is the last that was told. ``revoking`` and ``went``: since when members
    are to give up partitions, or are away (Unix ms). ``converted_epoch``: that in which the group
    got its type.
    """

    changes: dict[int, EpochChange] = field(default_factory=dict)
    before: dict[str, bytes] = field(default_factory=dict)
    after: dict[str, bytes] = field(default_factory=dict)
    members: dict[str, Any] = field(default_factory=dict)
    candidates: list[MemberEvent] = field(default_factory=list)
    hints: dict[type, int] = field(default_factory=dict)
    gone: list[Gone] = field(default_factory=list)
    held: dict[str, MemberAssignment] = field(default_factory=dict)
    revoking: dict[str, int] = field(default_factory=dict)
    went: dict[str, int] = field(default_factory=dict)
    assigned_ms: int | None = None
    told_epoch: int = 0
    converted_epoch: int = -1

    def start_over(self, assigned_ms: int | None) -> None:
        """Begin after a target; members take it over from ``assigned_ms`` on."""
        self.before, self.after, self.members = {}, {}, {}
        self.assigned_ms = assigned_ms

    def take_changes(self, epoch: int) -> EpochChange | None:
        """Take out the changes that a target of this epoch answers; return the first."""
        answered = sorted(each for each in self.changes if each <= epoch)
        taken = [self.changes.pop(each) for each in answered]
        return taken[0] if taken else None

    def take_instance(self, instance_id: str | None) -> Gone | None:
        """Take out the member that had this instance id, and whose records have just gone."""
        for each in self.gone if instance_id else ():
            if each.member.instance_id == instance_id:
                self.gone.remove(each)
                self.went.pop(each.member_id, None)
                return each
        return None

    def take_over(self, old: str, new: str) -> None:
        """Count what a member had as had by the one that has its instance id now."""
        if old in self.before:
            self.before[new] = self.before.pop(old)
        self.members.pop(old, None)
