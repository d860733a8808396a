"""The changes that the next assignor run must be told: noted as they happen, sent with the run.

A worker caches each group as of the last run, so that a change of one member costs the data of one
member and not of the group. Whatever makes the cache doubtful (a new leader, a failed run) makes
the next run send the whole group.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from protocol.assignors.flat import SubscriptionRow, SubscriptionRows
from protocol.groups.effects import ComputeAssignment, GroupChanges

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Set

    from protocol.groups.effects import MemberRow
    from protocol.groups.modern.hard_state import ModernGroup, Subscription
    from protocol.groups.topic_row import TopicRow
    from protocol.groups.topics import Topic, Topics

MANY: Final = 50
"""From this many subscriptions on, it pays to send the names of all topics of the group."""


@dataclass(slots=True, eq=False)
class TargetFeed:
    """``base_run``: the run that the worker's cache is as of; None: it has none.

    ``sent`` are the numbers of the subscriptions that it knows. ``spares`` are the members that the
    last run did not see, ``limit`` is the number of active ones that they were chosen for (None:
    there was no run). ``earlier`` is what members had that are back after a while, until a run that
    was told of it (``told_earlier``) has a result. ``must_answer_whole``: the log
    holds parts of a target that was never completed, so every member's has to be written.
    """

    base_run: int | None = None
    must_answer_whole: bool = False
    topics_changed: bool = True
    sent: set[int] = field(default_factory=set)
    gone: list[tuple[str, str | None]] = field(default_factory=list)
    changed: dict[str, None] = field(default_factory=dict)
    spares: Set[str] = frozenset()
    limit: int | None = None
    earlier: dict[str, bytes] = field(default_factory=dict)
    told_earlier: tuple[str, ...] = ()

    def member_changed(self, member_id: str) -> None:
        """Note that a member is new or has changed."""
        self.changed[member_id] = None

    def member_gone(self, member_id: str, successor: str | None = None) -> None:
        """Note that a member left; ``successor`` is the static member that took its place."""
        self.changed.pop(member_id, None)
        self.gone.append((member_id, successor))
        earlier = self.earlier.pop(member_id, None)
        if earlier is not None and successor is not None:
            self.earlier[successor] = earlier

    def regex_changed(self, subscriptions: Iterable[Subscription], regex: str) -> None:
        """Note that the matches of a regular expression have changed."""
        for subscription in subscriptions:
            if subscription.regex == regex:
                self.sent.discard(subscription.number)

    def set_spares(self, limit: int, spares: Set[str]) -> None:
        """Keep these members from the next run: to it, those that it knows are gone."""
        before, self.spares, self.limit = self.spares, spares, limit
        for member_id in sorted(spares - before):
            self.gone.append((member_id, None))
        for member_id in sorted(before - spares):
            self.changed[member_id] = None

    def computed(self, run: int) -> None:
        """Note that the worker's cache is as of this run, whose result is here."""
        self.base_run = run
        self.must_answer_whole = False
        for member_id in self.told_earlier:
            self.earlier.pop(member_id, None)
        self.told_earlier = ()

    def start_over(self) -> None:
        """Send the whole group with the next run."""
        self.base_run = None

    def task(
        self,
        group: ModernGroup[Any],
        topics: Topics,
        run: int,
        assignor: str,
        *,
        with_racks: bool = False,
    ) -> ComputeAssignment:
        """Build the task of a run, and count all changes as sent."""
        is_whole = self.base_run is None
        tasks = group.task_settings()
        is_told = tasks is None and (is_whole or self.topics_changed)
        rows = _topic_rows(group, topics, with_racks) if is_told else None
        changes = self._whole(group, rows) if is_whole else self._news(group, rows)
        if self.earlier:
            changes = replace(changes, earlier=self._tell_earlier())
        task = ComputeAssignment(
            group_id=group.group_id,
            run=run,
            assignor=assignor,
            base_run=self.base_run,
            changes=changes,
            answer_whole=self.must_answer_whole,
            is_shared=group.kind.form.is_shared,
            tasks=tasks,
        )
        self.topics_changed = False
        self.gone, self.changed = [], {}
        self.sent = set(group.subscriptions_by_number)
        return task

    def _tell_earlier(self) -> tuple[tuple[str, bytes], ...]:
        """Return what members had that the run sees; spares have lost it."""
        self.told_earlier = tuple(self.earlier)
        return tuple([each for each in self.earlier.items() if each[0] not in self.spares])

    def _whole(self, group: ModernGroup[Any], topics: tuple[TopicRow, ...] | None) -> GroupChanges:
        members, spares = group.members, self.spares
        targets = group.targets or (
            {} if group.pending_target is None else group.pending_target.targets
        )
        return GroupChanges(
            topics=topics,
            subscriptions=_topics_of(group, group.subscriptions_by_number),
            members=tuple([each.row for each in members.values() if each.member_id not in spares]),
            targets=tuple(
                [each for each in targets.items() if each[0] in members and each[0] not in spares]
            ),
        )

    def _news(self, group: ModernGroup[Any], topics: tuple[TopicRow, ...] | None) -> GroupChanges:
        in_use = group.subscriptions_by_number.keys()
        return GroupChanges(
            topics=topics,
            subscriptions=_topics_of(group, in_use - self.sent),
            gone=tuple(self.gone),
            members=_member_rows(group, [each for each in self.changed if each not in self.spares]),
            dropped_subscriptions=tuple(self.sent - in_use),
        )


def _topics_of(group: ModernGroup[Any], numbers: Collection[int]) -> Mapping[int, frozenset[str]]:
    """Return the topics of subscriptions; if many, as rows of numbers without name look-ups."""
    subscriptions_by_number = group.subscriptions_by_number
    if len(numbers) < MANY:
        return {number: group.topics_of(subscriptions_by_number[number]) for number in numbers}
    names = group.name_numbers
    if not group.regexes:
        return SubscriptionRows(
            list(names.names), [*map(subscriptions_by_number.__getitem__, numbers)]
        )
    told = ((number, group.topics_of(subscriptions_by_number[number])) for number in numbers)
    return SubscriptionRows(
        list(names.names), [SubscriptionRow(number, names.row(topics)) for number, topics in told]
    )


def _topic_rows(group: ModernGroup[Any], topics: Topics, with_racks: bool) -> tuple[TopicRow, ...]:
    known = [topic for topic in map(topics.by_name, group.topics) if topic is not None]
    return tuple([_topic_row(group, topics, topic, with_racks) for topic in known])


def _topic_row(group: ModernGroup[Any], topics: Topics, topic: Topic, with_racks: bool) -> TopicRow:
    row = topic.row
    if with_racks:
        row = row._replace(racks=topics.partition_racks(topic))
    assignable = group.assignable(topic)
    return row if assignable is None else row._replace(assignable=assignable)


def _member_rows(group: ModernGroup[Any], member_ids: Iterable[str]) -> tuple[MemberRow, ...]:
    members = group.members
    return tuple([members[each].row for each in member_ids if each in members])
