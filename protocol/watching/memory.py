"""What has happened in a group since its last target, as far as its records told it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from protocol.groups.facts import MemberEventKind, TopicsCause
from protocol.groups.modern.hard_state import EMPTY_EPOCH
from protocol.groups.modern.runtime import TAKEN_OVER_MAX

if TYPE_CHECKING:
    from protocol.groups.facts import MemberEvent, TakenOver
    from protocol.groups.modern.reconcile import MemberAssignment

FIRST_EPOCHS: Final = (1, 2)
"""That of a new group: groups begin in epoch 1 since Kafka 4.3, in 0 before."""


LOST_EPOCH: Final = -1
"""One that compaction has removed: no epoch follows it."""


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


class Waiting(NamedTuple):
    """A member whose regular expression is not resolved yet, so that no epoch followed it."""

    regex: str
    event: MemberEvent


@dataclass(slots=True)
class ModernMemory:
    """What is known of a group besides its members and targets.

    Since the last target: ``changes`` by epoch, ``before`` and ``after`` it members' targets.
    ``members`` are the metadata of those that are gone, ``held`` what members had whose records
    begin to go. ``assigned_ms``: when the target took effect that members are taking over,
    ``taken_over``: the last ones that have.
    ``told_epoch`` is the last that was told. ``revoking`` and ``went``: since when members are to
    give up partitions, or are away; ``gained``: when they last got some of topics whose names were
    not known, by the topics' numbers (Unix ms).
    ``converted_epoch``: that in which the group got its type. ``empty_epoch``: that in which it had
    nothing yet.

    Of the records that were written at once, at ``write_ms``: ``candidates`` to be the cause of an
    epoch, ``gone`` members, ``replaced`` ones.
    ``is_lost``: others are gone of which compaction has left only that. ``is_unclear``: one was
    written of which it has removed what was written before.

    Since the last epoch: ``hints``, changes of the group itself; ``waiting`` members.

    ``epoch`` is the last one that the log had, 0 if it had none yet; ``is_cut``: compaction has
    removed records of the group. ``is_based``: the target before the next one is known, if
    not ``is_maybe_second``: there may have been an epoch before the first one.
    """

    write_ms: int = -1
    candidates: list[MemberEvent] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)
    replaced: dict[str, MemberEvent] = field(default_factory=dict)
    hints: dict[TopicsCause, None] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    epoch: int = 0
    is_lost: bool = False
    is_unclear: bool = False
    is_cut: bool = False
    is_based: bool = False
    is_maybe_second: bool = False
    changes: dict[int, EpochChange] = field(default_factory=dict)
    before: dict[str, bytes] = field(default_factory=dict)
    after: dict[str, bytes] = field(default_factory=dict)
    members: dict[str, Any] = field(default_factory=dict)
    held: dict[str, MemberAssignment] = field(default_factory=dict)
    revoking: dict[str, int] = field(default_factory=dict)
    went: dict[str, int] = field(default_factory=dict)
    gained: dict[str, dict[int, int]] = field(default_factory=dict)
    assigned_ms: int | None = None
    taken_over: deque[TakenOver] = field(default_factory=lambda: deque(maxlen=TAKEN_OVER_MAX))
    told_epoch: int = 0
    empty_epoch: int = EMPTY_EPOCH
    converted_epoch: int = -1

    def start_over(self, assigned_ms: int | None) -> None:
        """Begin after a target; members take it over from ``assigned_ms`` on."""
        self.before, self.after, self.members = {}, {}, {}
        self.taken_over.clear()
        self.assigned_ms, self.is_based, self.is_maybe_second = assigned_ms, True, False

    def pass_over(self, epoch: int) -> None:
        """Take a target as the one from which on it is told."""
        self.take_changes(epoch)
        self.start_over(None)
        self.told_epoch = max(epoch, self.told_epoch)

    def miss(self, epoch: int) -> None:
        """Note that the target of this epoch is not in the log, though members have it."""
        self.take_changes(epoch)
        self.is_based = False
        self.told_epoch = max(epoch, self.told_epoch)

    def end_write(self, *, has_gone: bool) -> None:
        """Forget what can only be the cause of an epoch that was written at once with it.

        ``has_gone``: members went. An epoch comes with that, and with a member that joins: if none
        did, compaction has removed it.
        """
        joined = [each for each in self.candidates if each.kind is MemberEventKind.JOINED]
        for event in joined:
            self.find_cut(event.member_id)
        if joined or has_gone or self.is_lost:
            self.is_cut, self.is_based, self.epoch = True, False, LOST_EPOCH
        self.candidates.clear()
        self.is_lost = self.is_unclear = False
        self.hints.pop(TopicsCause.REGEX_RESOLVED, None)

    def find_cut(self, member_id: str, *, has_target: bool = False) -> None:
        """Note that compaction has removed older records of a member, maybe of its target, too."""
        self.is_cut = self.is_unclear = True
        if member_id in self.after:
            self.before.setdefault(member_id, self.after[member_id])
        elif not has_target:
            self.is_based = False

    def end_epoch(self) -> None:
        """Forget what an epoch has answered."""
        self.candidates.clear()
        self.is_lost = self.is_unclear = False
        self.hints.clear()

    def targeted(self, assignment_epoch: int) -> int:
        """Return the epoch of the last target, by that of the group as it was replayed."""
        if assignment_epoch == EMPTY_EPOCH:  # it is that of a group without a target, too
            assignment_epoch = self.empty_epoch
        return max(assignment_epoch, self.told_epoch)

    def begin(self, epoch: int) -> None:
        """Take this epoch, the first one in the log, as that in which the group was made."""
        self.is_based, self.empty_epoch = True, min(epoch - 1, self.empty_epoch)
        self.is_maybe_second = epoch > EMPTY_EPOCH

    def is_known(self, *, is_dated: bool) -> bool:
        """Whether the target before the next one is known, by whether that has a time.

        Kafka dates targets since groups begin in epoch 1. Before, epoch 2 is the second one.
        """
        return self.is_based and (is_dated or not self.is_maybe_second)

    def follows(self, epoch: int) -> bool:
        """Whether no epoch before this one is missing in the log."""
        if self.epoch:
            return epoch == self.epoch + 1
        is_cut = self.is_cut or self.told_epoch or not self.candidates  # somebody makes a group
        return epoch in FIRST_EPOCHS and not is_cut

    def answers(self, epoch: int) -> bool:
        """Whether it is known of what a target of this epoch is the answer.

        A target whose epoch has no record comes after others that compaction has removed.
        """
        return epoch <= self.epoch and any(each <= epoch for each in self.changes)

    def take_changes(self, epoch: int) -> EpochChange | None:
        """Take out the changes that a target of this epoch answers; return the first."""
        answered = sorted(each for each in self.changes if each <= epoch)
        taken = [self.changes.pop(each) for each in answered]
        return taken[0] if taken else None

    def take_resolved(self, regex: str) -> list[MemberEvent]:
        """Take out the events of members that waited for this regular expression."""
        found = [each for each, waiting in self.waiting.items() if waiting.regex == regex]
        return [self.waiting.pop(each).event for each in found]

    def take_instance(self, instance_id: str | None, member_id: str) -> Gone | None:
        """Take out the member that had this instance id, and whose records have just gone.

        Who has the id now does not gain what that one had.
        """
        for each in self.gone if instance_id else ():
            if each.member.instance_id == instance_id:
                self.gone.remove(each)
                gained = self.gained.get(each.member_id)
                self.forget(each.member_id)
                self.held[member_id] = each.held
                if gained is not None:
                    self.gained[member_id] = gained
                return each
        return None

    def forget(self, member_id: str) -> None:
        """Forget what is kept of a member until it is gone."""
        for kept in (self.went, self.revoking, self.gained, self.waiting, self.held):
            kept.pop(member_id, None)

    def take_over(self, old: str, new: str) -> None:
        """Count what a member had as had by the one that has its instance id now."""
        if old in self.before:
            self.before[new] = self.before.pop(old)
        self.members.pop(old, None)
