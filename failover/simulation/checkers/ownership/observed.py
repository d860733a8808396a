"""Members and groups as seen in their messages, and what each member has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from failover.simulation.nodes.process import Process
    from failover.simulation.world import World

NEVER: Final = -1

Place: TypeAlias = "tuple[UUID | str, int]"
"""A topic's id (its name, when it is gone) and a partition."""


@dataclass(slots=True, eq=False)
class ObservedMember:
    """A member as seen in its messages; times are true ones, :data:`NEVER` before the first.

    ``has`` maps what it owns to when it was told so, ``asked_back`` what it was told to give up to
    when that was; ``gave_up`` lists what it no longer has, with when it said so. ``contact`` is
    when the last request came that extended its session, ``said`` when the last one came that
    lists what it has. ``is_gone``: it said that it leaves. ``replaced_at`` is when another static
    member was told that it has this one's place, ``unknown_at`` when it was told that the group
    does not know it, until it joins again. ``told`` are the epoch and the tasks that it was last
    told, ``heard`` when a heartbeat came that is not answered; ``unheeded_since`` is when the first
    heartbeat came after the last that ``is_answered`` well; ``kept`` are the tasks that are kept
    for a static member that is away.
    """

    member_id: str
    instance_id: str | None = None
    is_classic: bool = False
    contact: int = NEVER
    is_gone: bool = False
    said: int = NEVER
    replaced_at: int = NEVER
    unknown_at: int = NEVER
    told: tuple[int, frozenset[Place]] = (0, frozenset())
    heard: int = NEVER
    unheeded_since: int = NEVER
    is_answered: bool = True
    kept: frozenset[Place] = frozenset()
    epoch: int = 0
    epoch_at: int = NEVER
    has: dict[Place, int] = field(default_factory=dict)
    gave_up: list[tuple[int, Place]] = field(default_factory=list)
    asked_back: dict[Place, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Challenge:
    """A request to join in a static member's place; a classic member's first request has no id."""

    member_id: str
    is_classic: bool
    at: int


@dataclass(slots=True, eq=False)
class GroupOwnership:
    """One group. ``epochs`` are the highest epochs that any member was told, with the time.

    ``challenges`` are the requests to join in the place of each instance id. ``changed_at`` is when
    a classic member first asked to join or leave, or was told to join, since the epoch last grew;
    ``rounds`` are the times from then until it grew. ``unknown`` are topics in the classic leader's
    assignment that its coordinator did not know: if it converts the group then, it finds no owners
    of their partitions, as in Kafka.
    """

    observed_members: dict[str, ObservedMember] = field(default_factory=dict)
    challenges: dict[str, list[Challenge]] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    changed_at: int = NEVER
    rounds: list[tuple[int, int]] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)

    def note_change(self, at: int) -> None:
        """Note what may start or accompany a rebalance of a classic group."""
        if self.changed_at == NEVER:
            self.changed_at = at

    def highest_before(self, at: int) -> int:
        """Return the highest epoch that any member was told before then."""
        return next((epoch for told_at, epoch in reversed(self.epochs) if told_at < at), 0)


class ObservedOwners:
    """What all members have.

    ``topic_names`` collects the name of each topic id, for the members.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._groups: dict[str, GroupOwnership] = {}
        self.topic_names: dict[UUID, str] = {}

    def group(self, group_id: str) -> GroupOwnership:
        """Return a group, a new one if nothing was seen of it."""
        return self._groups.setdefault(group_id, GroupOwnership())

    def observed(self, message: Any, member_id: str) -> ObservedMember:
        """Return a member of the group that a message names."""
        observed_members = self.group(message.group_id).observed_members
        observed = observed_members.get(member_id)
        if observed is None:
            observed = observed_members[member_id] = ObservedMember(member_id)
        return observed

    def forget(self) -> None:
        """Note that all groups are gone."""
        self._groups.clear()

    def gives_up(self, observed: ObservedMember, kept: Iterable[Place]) -> None:
        """Note that a member has nothing but what it ``kept``."""
        kept = set(kept)
        observed.said = self.world.now
        for place in [place for place in observed.has if place not in kept]:
            del observed.has[place]
            observed.gave_up.append((self.world.now, place))
            observed.asked_back.pop(place, None)

    def gave_up(
        self, group_id: str, member_id: str, since: int, until: int
    ) -> set[tuple[str, int]]:
        """Return what a member gave up between two times."""
        observed = self.group(group_id).observed_members.get(member_id)
        given_up = [] if observed is None else observed.gave_up
        return {
            (name, place[1])
            for at, place in given_up
            if since <= at <= until and (name := self.topic_of(place)) is not None
        }

    def learn(self, process: Process, topics: Iterable[Any]) -> None:
        """Note the names of topics, which members then know."""
        for topic in topics:
            known = by_id(process, topic.topic_id)
            if known is not None:
                self.topic_names[topic.topic_id] = known.name

    def name(self, place: Place) -> str:
        """Return a partition for people."""
        return f"{self.topic_of(place)}-{place[1]}"

    def topic_of(self, place: Place) -> str | None:
        """Return the name of a topic; None: nobody was told it."""
        topic = place[0]
        return topic if isinstance(topic, str) else self.topic_names.get(topic)


def places(topics: Iterable[Any]) -> list[Place]:
    """Return the partitions of topics in a message."""
    return [(topic.topic_id, index) for topic in topics for index in topic.partitions]


def by_id(process: Process, topic_id: UUID) -> Any:
    """Return the topic as a process knows it; None: it does not."""
    return None if process.host is None else process.host.view.catalog.topics.by_id(topic_id)


def by_name(process: Process, name: str) -> Any:
    """Return the topic as a process knows it; None: it does not."""
    return None if process.host is None else process.host.view.catalog.topics.by_name(name)
