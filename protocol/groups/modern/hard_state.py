"""Hard state of a modern group: the content of the log. Written by replays only.

Consumer, share and streams groups share these classes; each type extends them with subclasses.
Besides the content of the records, sums are maintained as records arrive, so that no request
costs time proportional to the number of members: the holder of each partition, the members per
subscription, the subscriptions per topic, the settled members per epoch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from protocol.assignors.spec import no_values
from protocol.groups.effects import MemberRow
from protocol.groups.modern.name_numbers import NameNumbers
from protocol.groups.modern.reconcile import MemberAssignment, MemberState
from protocol.groups.timers import TimerKind
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Set

    from kio.static.protocol import Entity

    from protocol.assignors.spec import Int32s
    from protocol.groups.effects import TaskSettings
    from protocol.groups.modern.kind import ModernKind
    from protocol.groups.topic_numbers import Partition, TopicNumbers
    from protocol.groups.topics import Topic

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member left and intends to return within its session."""

EMPTY_EPOCH: Final = 1
"""The group epoch and assignment epoch of a new group: nothing is assigned (KIP-1263)."""


class ModernGroupState(StrEnum):
    """A state as Kafka spells it on the wire; always derived, never stored."""

    EMPTY = "Empty"
    """No members."""
    ASSIGNING = "Assigning"
    """The group has changed since the target assignment was computed."""
    RECONCILING = "Reconciling"
    """Members are on their way to the target assignment."""
    STABLE = "Stable"
    """Every member has its target assignment."""


@dataclass(slots=True, eq=False)
class Subscription:
    """A subscription shared by members: topic names and a regular expression ("" is none).

    All members of a group with equal subscriptions share one object. A ``number`` is never reused;
    ``row`` has the group's numbers for the names, while the subscription is in use.
    """

    names: frozenset[str]
    regex: str
    number: int
    members: int = 0
    row: Int32s = field(default_factory=no_values)


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The matches of a regular expression, in which topics image, and when (Unix ms)."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


NO_ASSIGNMENT: Final = MemberAssignment(0, 0, MemberState.STABLE, {}, {})
"""The assignment of a member that has just joined."""


@dataclass(slots=True, eq=False)
class ModernGroupMember:
    """A member according to the log; ``row`` is the member as passed to an assignor run.

    ``metadata`` is the value of its member record; each type's subclass reads it.
    ``cached_target`` is the decoded target assignment, ``encoded_assignment`` the encoded current
    assignment. Each is kept with the object that it was made from, because the next one is often
    the same.
    """

    member_id: str
    metadata: Any
    subscription: Subscription
    assignment: MemberAssignment = NO_ASSIGNMENT
    row: MemberRow = field(init=False)
    cached_target: tuple[bytes, Set[Partition]] | None = None
    encoded_assignment: tuple[Mapping[Partition, int], bytes] | None = None

    def __post_init__(self) -> None:
        self.set_metadata(self.metadata, self.subscription)

    def set_metadata(self, metadata: Any, subscription: Subscription) -> None:
        """Store the metadata that the member sent."""
        self.metadata, self.subscription = metadata, subscription
        self.row = MemberRow(
            self.member_id, self.instance_id, metadata.rack_id, subscription.number
        )

    @property
    def instance_id(self) -> str | None:
        """The instance id of a static member; some types have none."""
        return None

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long to wait for it to revoke partitions; some types never wait."""
        return 0

    @property
    def session_timeout_ms(self) -> int | None:
        """The session timeout that the member sent; None: that of the group's configs."""
        return None

    @property
    def revocation_timer(self) -> str:
        """The kind of timer that limits the wait for a revocation."""
        return TimerKind.REVOCATION

    @property
    def stale_epoch(self) -> ErrorCode:
        """The error for a request about offsets in an epoch that is not the member's."""
        return ErrorCode.stale_member_epoch


@dataclass(slots=True, eq=False)
class PendingTarget:
    """A target assignment whose records arrive before the metadata record that completes it."""

    epoch: int
    targets: dict[str, bytes] = field(default_factory=dict)


MemberT = TypeVar("MemberT", bound=ModernGroupMember)


@dataclass(slots=True, eq=False, repr=False)
class ModernGroup(Generic[MemberT]):
    """A group of members of one class; ``kind`` has the parts that differ by group type.

    ``targets`` holds each member's target assignment as the bytes of its record's value.

    ``subscriptions_by_number`` has the subscriptions by number; ``holders`` maps a partition to the
    member that holds it, even if only until it is revoked. Partitions that several members may hold
    at a time are not in it. ``topics`` counts, per topic name, the subscriptions in use and the
    resolved regular expressions that name it; ``name_numbers`` has the numbers of the names.
    ``topic_changes`` collects the names that were added or removed, while a caller has set it to a
    list; that caller empties it. ``assignors`` counts the members that ask for each assignor.
    """

    type_name: ClassVar[str]
    kind: ClassVar[ModernKind]
    member_class: ClassVar[type[Any]] = ModernGroupMember

    group_id: str
    epoch: int = EMPTY_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = EMPTY_EPOCH
    assignment_timestamp_ms: int = 0
    members: dict[str, MemberT] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    targets: dict[str, bytes] = field(default_factory=dict)
    pending_target: PendingTarget | None = None
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    subscriptions: dict[tuple[frozenset[str], str], Subscription] = field(default_factory=dict)
    subscriptions_by_number: dict[int, Subscription] = field(default_factory=dict)
    regex_members: Counter[str] = field(default_factory=Counter)
    topics: dict[str, int] = field(default_factory=dict)
    name_numbers: NameNumbers = field(default_factory=NameNumbers)
    topic_changes: list[tuple[str, bool]] | None = None
    holders: dict[Partition, str] = field(default_factory=dict)
    assignors: Counter[str] = field(default_factory=Counter)
    settled: Counter[int] = field(default_factory=Counter)
    last_subscription: int = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group_id!r}, {self.state}, epoch {self.epoch})"

    @property
    def has_members(self) -> bool:
        """Whether the group has members."""
        return bool(self.members)

    @property
    def is_logged(self) -> bool:
        """Return True: such a group is made by its records."""
        return True

    def record_keys(self, group_id: str) -> Iterator[Entity]:
        """Yield the keys of all its records; the tombstone of the last one removes the group."""
        codec, pending = self.kind.codec, self.pending_target
        targets = self.targets if pending is None else {**self.targets, **pending.targets}
        for member_id in dict.fromkeys((*self.members, *targets)):
            yield codec.current_key(group_id, member_id)
            yield codec.target_key(group_id, member_id)
            yield codec.member_key(group_id, member_id)
        if codec.regex_key is not None:
            for regex in self.regexes:
                yield codec.regex_key(group_id, regex)
        yield from self.own_keys(group_id)
        yield codec.target_epoch_key(group_id)
        yield codec.epoch_key(group_id)

    @property
    def state(self) -> str:
        """The group's state in ConsumerGroupDescribe and ListGroups."""
        if not self.members:
            return ModernGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ModernGroupState.ASSIGNING
        if self.settled[self.assignment_epoch] < len(self.members):
            return ModernGroupState.RECONCILING
        return ModernGroupState.STABLE

    def member(self, member_id: str) -> MemberT:
        """Return a member by its id."""
        member = self.members.get(member_id)
        if member is None:
            sentence = f"Member {member_id} is not a member of group {self.group_id}."
            raise KafkaError(ErrorCode.unknown_member_id, sentence)
        return member

    def static_member(self, instance_id: str) -> MemberT | None:
        """Return the member that holds an instance id."""
        holder = self.static_members.get(instance_id)
        return None if holder is None else self.members[holder]

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        """Return the topics of a subscription; an unresolved regex matches none."""
        resolved = self.regexes.get(subscription.regex)
        if resolved is None:
            return subscription.names
        return subscription.names | resolved.topics if subscription.names else resolved.topics

    # --- for group types

    def subscribed(self, metadata: Any) -> tuple[Iterable[str], str]:
        """Return the topic names and the regular expression ("" is none) of a member's record."""
        return metadata.subscribed_topic_names, ""

    def own_topics(self) -> Iterable[str]:
        """Return the topics that the group needs whatever its members subscribe to."""
        return ()

    def own_keys(self, group_id: str) -> Iterable[Entity]:  # noqa: ARG002 - for subclasses
        """Return the keys of records that only this type has."""
        return ()

    def own_values(self) -> tuple[Any, ...]:
        """Return what the log says of the group that only this type has, as plain values."""
        return ()

    def unit_numbers(self, topics: TopicNumbers) -> Any:
        """Return the numbers of the units in the group's assignments, for its codec."""
        return topics

    def task_settings(self) -> TaskSettings | None:
        """Return what a run of a task assignor needs; None if members get partitions."""
        return None

    def is_free(self, member: MemberT) -> Callable[[Partition], bool]:
        """Return a function that says whether a member may have a place that it is to get."""
        holders, member_id = self.holders, member.member_id
        return lambda place: holders.get(place, member_id) == member_id

    def assignable(self, topic: Topic) -> tuple[int, ...] | None:  # noqa: ARG002 - for subclasses
        """Return the partitions of a topic that members may get, ascending; None: all of them."""
        return None

    def without_unavailable(
        self,
        target: Set[Partition],
        numbers: TopicNumbers,  # noqa: ARG002 - for subclasses
    ) -> Set[Partition]:
        """Return a target without the places that are no longer available since it was computed."""
        return target

    def count(self, member: MemberT, step: int) -> None:
        """Add (1) or remove (-1) a member's record in the sums that only this type has."""

    # --- for replays

    def put_member(self, member_id: str, metadata: Any) -> None:
        """Store a member's metadata."""
        names, regex = self.subscribed(metadata)
        subscription = self._subscription(frozenset(names), regex)
        self._enter(subscription)
        member = self.members.get(member_id)
        if member is None:
            member = self.member_class(member_id, metadata, subscription)
            self.members[member_id] = member
            self.settled[NO_ASSIGNMENT.epoch] += 1
        else:
            self._forget_metadata(member)
            member.set_metadata(metadata, subscription)
        instance_id = member.instance_id
        if instance_id is not None:
            self.static_members[instance_id] = member_id
        self.count(member, 1)

    def remove_member(self, member_id: str) -> None:
        """Remove a member."""
        member = self.members.get(member_id)
        if member is None:
            return
        self.put_assignment(member, NO_ASSIGNMENT)
        self.settled[NO_ASSIGNMENT.epoch] -= 1
        self._forget_metadata(member)
        del self.members[member_id]

    def put_assignment(self, member: MemberT, assignment: MemberAssignment) -> None:
        """Store a member's current assignment."""
        before, holders, member_id = member.assignment, self.holders, member.member_id
        if before.assigned is not assignment.assigned or before.revoking or assignment.revoking:
            holds = assignment.assigned.keys() | assignment.revoking.keys()
            for partitions in (before.assigned, before.revoking):
                for partition in partitions.keys() - holds:
                    if holders.get(partition) == member_id:
                        del holders[partition]
            exclusive = self.kind.form.exclusive(holds)
            holders.update(dict.fromkeys(exclusive, member_id))
        if before.state is MemberState.STABLE:
            self.settled[before.epoch] -= 1
            if not self.settled[before.epoch]:
                del self.settled[before.epoch]
        if assignment.state is MemberState.STABLE:
            self.settled[assignment.epoch] += 1
        member.assignment = assignment

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Store the matches of a regular expression; None: no member subscribes by it any more."""
        before = self.regexes.pop(regex, None)
        if resolved is not None:
            self.regexes[regex] = resolved
            self.count_topics(resolved.topics, 1)
        if before is not None:
            self.count_topics(before.topics, -1)

    def _subscription(self, names: frozenset[str], regex: str) -> Subscription:
        key = (names, regex)
        subscription = self.subscriptions.get(key)
        if subscription is None:
            self.last_subscription += 1
            subscription = Subscription(names, regex, self.last_subscription)
            self.subscriptions[key] = self.subscriptions_by_number[subscription.number] = (
                subscription
            )
        return subscription

    def _enter(self, subscription: Subscription) -> None:
        subscription.members += 1
        if subscription.members == 1:
            self.count_topics(subscription.names, 1)
            subscription.row = self.name_numbers.row(subscription.names)
        if subscription.regex:
            self.regex_members[subscription.regex] += 1

    def _leave(self, subscription: Subscription) -> None:
        subscription.members -= 1
        if not subscription.members:
            self.count_topics(subscription.names, -1)
            del self.subscriptions[(subscription.names, subscription.regex)]
            del self.subscriptions_by_number[subscription.number]
        if subscription.regex:
            decrement(self.regex_members, subscription.regex)

    def _forget_metadata(self, member: MemberT) -> None:
        self._leave(member.subscription)
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]
        self.count(member, -1)

    def count_topics(self, names: Iterable[str], step: int) -> None:
        """Count (1) or no longer count (-1) topics that the group needs."""
        topics, topic_changes = self.topics, self.topic_changes
        for name in names:
            count = topics.get(name, 0) + step
            if count:
                topics[name] = count
            else:
                del topics[name]
            if count != max(step, 0):
                continue
            if step > 0:
                self.name_numbers.add(name)
            else:
                self.name_numbers.drop(name)
            if topic_changes is not None:
                topic_changes.append((name, step > 0))


def decrement(counts: Counter[str], name: str) -> None:
    """Subtract one; remove a name whose count reaches zero."""
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
