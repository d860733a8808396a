"""Check at every answer who owns which partition or active task, where only one member may.

A member owns a partition from the answer that assigns it until the request that no longer lists it,
or that leaves the group. Until then no other member may be told that it has the partition, unless
the coordinator may have expelled the member: it has not heard from it for a session timeout, or
asked for the partition back a rebalance timeout ago.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from failover.routing import partition_for
from failover.simulation.checkers.client_history import EARLY
from failover.simulation.checkers.modern_states import reconciles
from failover.simulation.checkers.shares import ShareAssignments
from failover.simulation.event_log import Violation
from failover.simulation.kinds import MIXED, STREAMS, allows_takeover, subtopology_of, tasks_in
from protocol.wire import messages as m
from protocol.wire.embedded import decode_assignment
from protocol.wire.errors import ErrorCode
from protocol.wire.streams_messages import StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from kio.static.protocol import Entity

    from failover.simulation.checkers.client_history import ClientHistoryChecker
    from failover.simulation.checkers.values import Values
    from failover.simulation.nodes.process import Process
    from failover.simulation.nodes.requests import SentAnswer
    from failover.simulation.world import World

OK: Final = ErrorCode.none
NEVER: Final = -1
AWAY: Final = -2
"""The epoch with which a static member leaves for a while."""


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
    told, ``heard`` when a heartbeat came that is not answered; ``kept`` are the tasks that are kept
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


class OwnershipChecker:
    """Checks answers in groups that may have members of the consumer protocol.

    ``topic_names`` collects the name of each topic id, for the members.
    """

    def __init__(self, world: World, client_history: ClientHistoryChecker, values: Values) -> None:
        self._world = world
        self._visible = client_history
        self._values = values
        self._groups: dict[str, GroupOwnership] = {}
        self._shares = ShareAssignments()
        self.topic_names: dict[UUID, str] = {}

    def _group(self, group_id: str) -> GroupOwnership:
        return self._groups.setdefault(group_id, GroupOwnership())

    def _observed(self, message: Any, member_id: str) -> ObservedMember:
        observed_members = self._group(message.group_id).observed_members
        observed = observed_members.get(member_id)
        if observed is None:
            observed = observed_members[member_id] = ObservedMember(member_id)
        return observed

    def forget(self) -> None:
        """Note that all groups are gone."""
        self._groups.clear()
        self._shares.forget()

    # --- what members say

    def asked(self, process: Process, message: Entity) -> None:
        """Note what the sender of a request no longer has."""
        if isinstance(message, m.ConsumerGroupHeartbeatRequest):
            owned = message.topic_partitions
            self._heard(message, None if owned is None else _places(owned))
        elif isinstance(message, StreamsGroupHeartbeatRequest):
            active = message.active_tasks
            self._heard(message, None if active is None else tasks_in(active))
        elif isinstance(message, m.ShareGroupHeartbeatRequest):
            self._shares.asked(message, self._world.now)
        elif isinstance(message, m.SyncGroupRequest):
            self._shares_out(process, message)
        elif isinstance(message, m.JoinGroupRequest):
            self._group(message.group_id).note_change(self._world.now)
            self._joins(message)
        elif isinstance(message, m.LeaveGroupRequest):
            self._group(message.group_id).note_change(self._world.now)
            for member in message.members:
                observed = self._observed(message, member.member_id)
                observed.is_gone = True
                self._gives_up(observed, ())

    def _heard(self, message: Any, owned: Iterable[Place] | None) -> None:
        observed = self._observed(message, message.member_id)
        observed.instance_id = message.instance_id
        observed.is_gone = message.member_epoch < 0
        if message.member_epoch == AWAY and observed.heard == NEVER:
            observed.kept = frozenset(observed.has.keys() - observed.asked_back.keys())
        observed.heard = self._world.now
        if observed.is_gone:
            self._gives_up(observed, ())
        elif owned is not None:
            self._gives_up(observed, owned)
        if message.member_epoch == 0:
            observed.unknown_at = NEVER
        if message.member_epoch == 0 and message.instance_id is not None:
            self._challenges(message, message.instance_id, is_classic=False)

    def _joins(self, message: Any) -> None:
        """Note a classic member that joins: it gives up everything it had."""
        if message.member_id:
            self._gives_up(self._observed(message, message.member_id), ())
        elif message.group_instance_id is not None:
            self._challenges(message, message.group_instance_id, is_classic=True)

    def _shares_out(self, process: Process, message: Any) -> None:
        """Note which topics of a classic leader's assignment the coordinator does not know."""
        if message.assignments:
            decoded = [decode_assignment(row.assignment) or () for row in message.assignments]
            names = {name for assigned in decoded for name, _ in assigned}
            unknown = {name for name in names if _by_name(process, name) is None}
            self._group(message.group_id).unknown = unknown

    def _challenges(self, message: Any, instance_id: str, *, is_classic: bool) -> None:
        known = self._group(message.group_id).challenges.setdefault(instance_id, [])
        known.append(Challenge(message.member_id, is_classic, self._world.now))

    def _gives_up(self, observed: ObservedMember, kept: Iterable[Place]) -> None:
        kept = set(kept)
        observed.said = self._world.now
        for place in [place for place in observed.has if place not in kept]:
            del observed.has[place]
            observed.gave_up.append((self._world.now, place))
            observed.asked_back.pop(place, None)

    def gave_up(
        self, group_id: str, member_id: str, since: int, until: int
    ) -> set[tuple[str, int]]:
        """Return what a member gave up between two times."""
        observed = self._group(group_id).observed_members.get(member_id)
        places = [] if observed is None else observed.gave_up
        return {
            (name, place[1])
            for at, place in places
            if since <= at <= until and (name := self._topic_of(place)) is not None
        }

    # --- what members are told

    def answered(self, process: Process, answer: SentAnswer) -> None:
        """Check an answer."""
        check = CHECKS.get(type(answer.message))
        if check is not None:
            check(self, process, answer)

    def _heartbeat(self, process: Process, answer: SentAnswer) -> None:
        observed = self._member(process, answer)
        assignment = answer.response.assignment
        if observed is not None and assignment is not None:
            topics = assignment.topic_partitions
            self.learn(process, topics)
            self._gives(observed, answer, _places(topics))

    def _streams_heartbeat(self, process: Process, answer: SentAnswer) -> None:
        observed = self._member(process, answer)
        active = answer.response.active_tasks
        if observed is None or active is None:
            return
        given, epoch = frozenset(tasks_in(active)), answer.response.member_epoch
        if answer.message.member_epoch == 0:
            self._keeps_its_tasks(observed, answer, given)
        self._gives(observed, answer, given)
        observed.told = (epoch, given)

    def _share_heartbeat(self, process: Process, answer: SentAnswer) -> None:
        message, response = answer.message, answer.response
        self._visible.speaks(process, message.group_id, response.error_code)
        if response.error_code is OK and response.assignment is not None:
            self.learn(process, response.assignment.topic_partitions)
        self._shares.answered(process, answer, self._world.now)

    def learn(self, process: Process, topics: Iterable[Any]) -> None:
        """Note the names of topics, which members then know."""
        for topic in topics:
            known = _by_id(process, topic.topic_id)
            if known is not None:
                self.topic_names[topic.topic_id] = known.name

    def _member(self, process: Process, answer: SentAnswer) -> ObservedMember | None:
        """Check what all answers to heartbeats say; None: the member is not in the group."""
        message, response = answer.message, answer.response
        code = response.error_code
        self._visible.speaks(process, message.group_id, code)
        if code is ErrorCode.unknown_member_id and message.member_epoch > 0:
            self._observed(message, message.member_id).unknown_at = self._world.now
        if code is not OK or message.member_epoch < 0:
            return None
        observed = self._observed(message, response.member_id)
        observed.is_classic, observed.instance_id = False, message.instance_id
        observed.contact = max(observed.contact, answer.asked_at)
        if observed.heard == answer.asked_at:
            observed.heard = NEVER
        is_join = message.member_epoch == 0
        if is_join:
            observed.kept = frozenset()
        else:
            self._may_go_on(observed, answer)
        self._epoch(observed, answer, response.member_epoch, is_join)
        if is_join:
            self._takes_place(observed, answer)
        return observed

    def _may_go_on(self, observed: ObservedMember, answer: SentAnswer) -> None:
        """Check that a member that lost its place is not in the group unless it joins again."""
        if observed.member_id != answer.message.member_id:
            raise Violation(
                f"{answer.message.member_id} is answered as {observed.member_id}",
                answer.message.group_id,
            )
        if NEVER < observed.unknown_at < answer.asked_at:
            raise Violation(
                f"{observed.member_id} is in the group again without a join: it was unknown",
                answer.message.group_id,
            )
        if NEVER < observed.replaced_at < answer.asked_at:
            raise Violation(
                f"{observed.member_id} is answered OK, though {observed.instance_id} is another"
                " member",
                answer.message.group_id,
            )

    def _keeps_its_tasks(
        self, observed: ObservedMember, answer: SentAnswer, given: frozenset[Place]
    ) -> None:
        """Check that a static member that returns in the same epoch has the same active tasks.

        One that was away for longer than its session may have been removed: then it is a new one.
        """
        if observed.instance_id is None:
            return
        group, epoch = self._group(answer.message.group_id), answer.response.member_epoch
        settings = self._world.settings
        number = partition_for(answer.message.group_id, settings.partitions)
        for other in group.observed_members.values():
            told_epoch, tasks = other.told
            is_same = other is not observed and other.instance_id == observed.instance_id
            unheard_ms = self._visible.longest_unheard(number, other.contact)
            is_same &= unheard_ms < EARLY * settings.session_timeout_ms
            if is_same and told_epoch == epoch and not tasks <= given:
                lost = sorted(tasks - given, key=str)
                raise Violation(
                    f"{observed.instance_id} returns in epoch {epoch} and has lost {lost}",
                    answer.message.group_id,
                )

    def _takes_place(self, observed: ObservedMember, answer: SentAnswer) -> None:
        """Check that a static member's place goes to another member only when it is free."""
        group = self._group(answer.message.group_id)
        observed.replaced_at = NEVER
        if observed.instance_id is None:
            return
        for other in group.observed_members.values():
            if other is not observed and other.instance_id == observed.instance_id:
                for place in other.has:
                    self._may_lose(group, answer, other, place)
                if other.replaced_at == NEVER:
                    other.replaced_at = self._world.now
                other.has.clear()
                other.asked_back.clear()
                other.kept = frozenset()

    def _classic_heartbeat(self, process: Process, answer: SentAnswer) -> None:
        message, code = answer.message, answer.response.error_code
        self._visible.speaks(process, message.group_id, code)
        observed = self._observed(message, message.member_id)
        if code in (OK, ErrorCode.rebalance_in_progress):
            observed.contact = max(observed.contact, answer.asked_at)
        if code is ErrorCode.rebalance_in_progress:
            self._group(message.group_id).note_change(answer.asked_at)
            for place in observed.has:
                observed.asked_back.setdefault(place, answer.asked_at)

    def _join(self, process: Process, answer: SentAnswer) -> None:
        message, response = answer.message, answer.response
        code = response.error_code
        self._visible.speaks(process, message.group_id, code)
        if code is not OK:
            return
        observed = self._observed(message, response.member_id)
        observed.is_classic, observed.instance_id = True, message.group_instance_id
        observed.contact = max(observed.contact, answer.asked_at)
        # Another leader may not know a classic group's generation until it is synced.
        is_lasting = reconciles(process.group(message.group_id))
        self._epoch(observed, answer, response.generation_id, True, is_lasting=is_lasting)
        self._takes_place(observed, answer)

    def _sync(self, process: Process, answer: SentAnswer) -> None:
        message, response = answer.message, answer.response
        code = response.error_code
        self._visible.speaks(process, message.group_id, code)
        if code is not OK:
            return
        observed = self._observed(message, message.member_id)
        self._epoch(observed, answer, message.generation_id, False)
        places = []
        for name, index in decode_assignment(response.assignment) or ():
            topic, unit = _by_name(process, name), subtopology_of(message.group_id, name)
            places.append((unit or (name if topic is None else topic.topic_id), index))
        self._gives(observed, answer, places)

    def _epoch(
        self,
        observed: ObservedMember,
        answer: SentAnswer,
        epoch: int,
        is_join: bool,
        *,
        is_lasting: bool = True,
    ) -> None:
        """Check that epochs only grow: a member's own, and the group's as joiners see it."""
        group = self._group(answer.message.group_id)
        highest = group.highest_before(answer.asked_at) if is_join else 0
        if epoch < highest and self._may_be_new(group, observed, answer.message.group_id):
            group.epochs.clear()
            highest = 0
            for each in group.observed_members.values():
                each.epoch = 0
        if epoch < observed.epoch and observed.epoch_at < answer.asked_at:
            raise Violation(
                f"{observed.member_id} is told epoch {epoch}, after epoch {observed.epoch}",
                answer.message.group_id,
            )
        if epoch < highest:
            raise Violation(
                f"{observed.member_id} joins in epoch {epoch}, when {highest} had been told before",
                answer.message.group_id,
            )
        if is_lasting and epoch > observed.epoch:
            observed.epoch, observed.epoch_at = epoch, self._world.now
        if not group.epochs or epoch > group.epochs[-1][1]:
            if is_lasting:
                group.epochs.append((self._world.now, epoch))
            if group.changed_at != NEVER:
                group.rounds.append((group.changed_at, self._world.now))
                group.changed_at = NEVER

    def _may_be_new(self, group: GroupOwnership, observed: ObservedMember, group_id: str) -> bool:
        """Return whether a joining member may have found no members, and so set the group's type.

        There are none when all others left, or were silent for a session timeout.
        """
        number = partition_for(group_id, self._world.settings.partitions)
        enough_ms = EARLY * self._world.settings.session_timeout_ms
        return group_id.startswith((MIXED, STREAMS)) and all(
            other.is_gone or self._visible.longest_unheard(number, other.contact) >= enough_ms
            for other in group.observed_members.values()
            if other is not observed
        )

    def _gives(self, observed: ObservedMember, answer: SentAnswer, places: Iterable[Place]) -> None:
        """Check that no other member has the partitions that a member is told to have."""
        if answer.asked_at < observed.said:
            return  # it has sent another request since, and ignores answers to the earlier one
        group, now = self._group(answer.message.group_id), self._world.now
        given = set(places)
        for place in sorted(given - observed.has.keys(), key=str):
            self._is_not_kept(group, answer, observed, place)
            for other in group.observed_members.values():
                if other is not observed and place in other.has:
                    self._may_lose(group, answer, other, place)
                    del other.has[place]
            observed.has[place] = now
        for place in observed.has:
            if place in given:
                observed.asked_back.pop(place, None)
            else:
                observed.asked_back.setdefault(place, answer.asked_at)

    def _is_not_kept(
        self, group: GroupOwnership, answer: SentAnswer, observed: ObservedMember, place: Place
    ) -> None:
        """Check that a task of a static member that is away waits for its return."""
        settings, group_id = self._world.settings, answer.message.group_id
        number = partition_for(group_id, settings.partitions)
        for other in group.observed_members.values():
            if other is observed or place not in other.kept or not group_id.startswith(STREAMS):
                continue
            unheard_ms = self._visible.longest_unheard(number, other.contact)
            if unheard_ms < EARLY * settings.session_timeout_ms:
                raise Violation(
                    f"{self._name(place)} is given away, when {other.instance_id} is away: no"
                    f" leader can have missed it for more than {unheard_ms} ms",
                    group_id,
                )
            other.kept -= {place}

    def _may_lose(
        self, group: GroupOwnership, answer: SentAnswer, other: ObservedMember, place: Place
    ) -> None:
        message, settings = answer.message, self._world.settings
        number = partition_for(message.group_id, settings.partitions)
        if self._may_be_replaced(group, other, message.group_id):
            return
        unheard_ms = self._visible.longest_unheard(number, other.contact)
        if unheard_ms >= EARLY * settings.session_timeout_ms:
            return
        now = self._world.now
        waited_ms = now - other.asked_back.get(place, now)
        enough_ms = int(EARLY * settings.rebalance_timeout_ms)
        if waited_ms >= enough_ms:
            return
        if waited_ms and other.is_classic:
            # A classic group waits from the start of its rebalance; members hear of that later.
            asked_at, enough_ms = now - waited_ms, enough_ms - settings.heartbeat_interval_ms
            rounds = [*group.rounds, (group.changed_at, now if group.changed_at > NEVER else NEVER)]
            if any(end >= asked_at and end - began >= enough_ms for began, end in rounds):
                return
        raise Violation(
            f"{self._name(place)} is given away, when {other.member_id} still has it: no leader can"
            f" have missed it for more than {unheard_ms} ms, and it was asked for it {waited_ms} ms"
            " ago",
            message.group_id,
        )

    def _may_be_replaced(self, group: GroupOwnership, other: ObservedMember, group_id: str) -> bool:
        """Return whether a static member may have been replaced since its last successful request.

        A successor of the consumer protocol must wait for such a member to leave, unless the
        settings allow takeover.
        """
        takes_over = other.is_classic or (
            self._world.settings.takeover and allows_takeover(group_id)
        )
        return other.instance_id is not None and any(
            challenge.at >= other.contact
            and challenge.member_id != other.member_id
            and (challenge.is_classic or takes_over)
            for challenge in group.challenges.get(other.instance_id, ())
        )

    def _name(self, place: Place) -> str:
        return f"{self._topic_of(place)}-{place[1]}"

    def _topic_of(self, place: Place) -> str | None:
        topic = place[0]
        return topic if isinstance(topic, str) else self.topic_names.get(topic)

    # --- commits

    def _commit(self, process: Process, answer: SentAnswer) -> None:
        message = answer.message
        for code in self._visible.committed(answer):
            self._visible.speaks(process, message.group_id, code)
        observed = self._observed(message, message.member_id)
        unknown = self._group(message.group_id).unknown
        for topic in answer.response.topics:
            if NEVER < observed.replaced_at < answer.asked_at:
                self._is_refused(observed, answer, topic.partitions)
            known = _by_name(process, topic.name)
            # A commit names topics by name: if a topic was deleted and created again, its sender
            # may mean the topic that it still has.
            is_ambiguous = self._values.was_deleted(topic.name) or topic.name in unknown
            for row in topic.partitions:
                if row.error_code is OK and known is not None and not is_ambiguous:
                    unit = subtopology_of(message.group_id, topic.name)
                    self._is_owner(observed, answer, (unit or known.topic_id, row.partition_index))

    def _is_refused(
        self, observed: ObservedMember, answer: SentAnswer, rows: Iterable[Any]
    ) -> None:
        """Check that no static member commits whose place another one has taken."""
        if any(row.error_code is OK for row in rows):
            raise Violation(
                f"{observed.member_id} commits, though {observed.instance_id} is another member",
                answer.message.group_id,
            )

    def _is_owner(self, observed: ObservedMember, answer: SentAnswer, place: Place) -> None:
        """Check that no member commits for a partition that another member was told to have."""
        group_id = answer.message.group_id
        if place in observed.has:
            return
        for other in self._group(group_id).observed_members.values():
            if other.has.get(place, self._world.now) < answer.asked_at:
                raise Violation(
                    f"{observed.member_id} commits for {self._name(place)}, which is"
                    f" {other.member_id}'s",
                    group_id,
                )


def _places(topics: Iterable[Any]) -> list[Place]:
    return [(topic.topic_id, index) for topic in topics for index in topic.partitions]


def _by_id(process: Process, topic_id: UUID) -> Any:
    return None if process.host is None else process.host.view.catalog.topics.by_id(topic_id)


def _by_name(process: Process, name: str) -> Any:
    return None if process.host is None else process.host.view.catalog.topics.by_name(name)


CHECKS: Final[Mapping[type, Callable[[OwnershipChecker, Process, SentAnswer], None]]] = {
    m.ConsumerGroupHeartbeatRequest: OwnershipChecker._heartbeat,
    StreamsGroupHeartbeatRequest: OwnershipChecker._streams_heartbeat,
    m.ShareGroupHeartbeatRequest: OwnershipChecker._share_heartbeat,
    m.HeartbeatRequest: OwnershipChecker._classic_heartbeat,
    m.JoinGroupRequest: OwnershipChecker._join,
    m.SyncGroupRequest: OwnershipChecker._sync,
    m.OffsetCommitRequest: OwnershipChecker._commit,
}
