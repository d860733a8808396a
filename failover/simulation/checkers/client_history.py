"""Check at every answer that what clients are told is consistent, whichever node answers.

An answer counts from the moment a node sends it, whether or not it arrives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from failover.routing import partition_for
from failover.simulation.event_log import Violation
from failover.simulation.kinds import is_modern
from protocol.members.promises import Owners
from protocol.wire import messages as m
from protocol.wire.embedded import TopicPartition, decode_assignment
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity

    from failover.simulation.checkers.values import Values
    from failover.simulation.nodes.process import Process
    from failover.simulation.nodes.requests import SentAnswer
    from failover.simulation.world import World

OK: Final = ErrorCode.none
AUTHORITATIVE: Final = frozenset(
    {
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.fenced_instance_id,
        ErrorCode.rebalance_in_progress,
        ErrorCode.member_id_required,
        ErrorCode.fenced_member_epoch,
        ErrorCode.stale_member_epoch,
        ErrorCode.unreleased_instance_id,
    }
)
"""Errors that only the group's leader can know."""

EARLY: Final = 0.9
"""A session that ends before this share of its timeout ended too early, whatever the clocks do."""


@dataclass(slots=True)
class MemberContact:
    """A member that was told its assignment.

    ``contact`` is when a heartbeat or commit last succeeded, ``synced`` the generation and the time
    of its last SyncGroup: that started its session unless the leader's SyncGroup came earlier (as
    in Kafka: a SyncGroup does not extend the session in a Stable group).
    """

    instance_id: str | None
    contact: int
    synced: tuple[int, int]


@dataclass(slots=True)
class GroupHistory:
    """What clients know about one group.

    ``settled`` is the highest generation with an assignment that was sent; ``completed`` when the
    leader of each generation sent it; ``owners`` the owners of partitions in each; ``holders`` the
    last confirmed member id of each instance id; ``challenged`` when another JoinGroup with that
    instance id came. ``deletions``: how often the group had been deleted before ``began_at``.
    """

    settled: int = -1
    completed: dict[int, int] = field(default_factory=dict)
    owners: Owners[TopicPartition] = field(default_factory=Owners)
    contacts: dict[str, MemberContact] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    challenged: dict[str, int] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    deletions: int = 0
    began_at: int = 0


class ModernChecker(Protocol):
    """Checks groups that may have members of the consumer protocol."""

    def asked(self, process: Process, message: Entity) -> None:
        """Note a request that reached a node."""

    def answered(self, process: Process, answer: SentAnswer) -> None:
        """Check an answer."""


class ClientHistoryChecker:
    """Checks answers to group requests.

    ``modern`` checks behaviour that classic groups lack.

    ``leader_since``, updated by the replicas' checker, has the true times at which each partition's
    leaders were elected; ``committed_epoch`` returns the epoch of a partition's last committed
    record; ``deletions`` how often a group was deleted.
    """

    def __init__(self, world: World, values: Values) -> None:
        self._world = world
        self._values = values
        self._groups: dict[str, GroupHistory] = {}
        self._answered_epoch: dict[int, tuple[int, int]] = {}
        self.modern: ModernChecker | None = None
        self.leader_since: dict[int, list[int]] = {}
        self.committed_epoch: Callable[[Process, int], int] = lambda _process, _number: 0
        self.deletions: Callable[[Process, int, str], int] = lambda _process, _number, _group_id: 0

    def asked(self, process: Process, message: Entity) -> None:
        """Note a request that reached a node (see :class:`Watcher`)."""
        if isinstance(message, m.OffsetCommitRequest):
            now = self._world.now
            for topic in message.topics:
                for row in topic.partitions:
                    place = (message.group_id, topic.name, row.partition_index)
                    self._values.asked(place, row.committed_offset, now)
        if self.modern is not None and is_modern(getattr(message, "group_id", "")):
            self.modern.asked(process, message)
        elif isinstance(message, m.JoinGroupRequest):
            instance_id = message.group_instance_id
            if instance_id is not None:
                group = self._group(message.group_id)
                if group.holders.get(instance_id) != message.member_id:
                    group.challenged[instance_id] = self._world.now
        elif isinstance(message, m.LeaveGroupRequest):
            group = self._group(message.group_id)
            for member in message.members:
                member_id = member.member_id or group.holders.get(
                    member.group_instance_id or "", ""
                )
                group.left.add(member_id)

    def answered(self, process: Process, answer: SentAnswer) -> None:
        """Check an answer."""
        check = CHECKS.get(type(answer.message))
        if self.modern is not None and is_modern(getattr(answer.message, "group_id", "")):
            self.modern.answered(process, answer)
        elif check is not None:
            check(self, process, answer)

    def _group(self, group_id: str) -> GroupHistory:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = GroupHistory()
        return group

    def _group_now(self, process: Process, group_id: str) -> GroupHistory:
        """Return what is known of a group, whose generations start again when it was deleted."""
        number = partition_for(group_id, self._world.settings.partitions)
        deletions = self.deletions(process, number, group_id)
        group = self._group(group_id)
        if group.deletions != deletions:
            group.deletions, group.began_at, group.settled = deletions, self._world.now, -1
            group.completed.clear()
            group.owners = Owners()
        return group

    def forget(self) -> None:
        """Note that all groups are gone."""
        self._groups.clear()

    # --- rules for every answer

    def speaks(self, process: Process, group_id: str, code: ErrorCode) -> None:
        """Check that a group's answer is its leader's, and no newer epoch has answered before."""
        if code not in AUTHORITATIVE:
            return
        number = partition_for(group_id, self._world.settings.partitions)
        epoch = process.leads(number)
        if epoch is None:
            raise Violation(
                f"node {process.node_id} answers {code.name} for a group it does not lead", group_id
            )
        newest = self._answered_epoch.get(number)
        if newest is not None and epoch < newest[0]:
            raise Violation(
                f"node {process.node_id} answers {code.name} in epoch {epoch}, after node"
                f" {newest[1]} had answered in epoch {newest[0]}",
                group_id,
            )
        if newest is None or epoch > newest[0]:
            if self.committed_epoch(process, number) < epoch:
                raise Violation(
                    f"node {process.node_id} answers {code.name} in epoch {epoch}, of which nothing"
                    " is committed yet",
                    group_id,
                )
            self._answered_epoch[number] = (epoch, process.node_id)

    def _speaks_to(self, process: Process, answer: SentAnswer, code: ErrorCode) -> None:
        """Apply the rules for an answer to one member."""
        message = answer.message
        self.speaks(process, message.group_id, code)
        group = self._group(message.group_id)
        if code is OK:
            self._not_behind(group, message, _generation(message))
            self._not_replaced(group, message)
            contacts = group.contacts.get(message.member_id)
            if contacts is not None:
                contacts.contact = max(contacts.contact, answer.asked_at)
        elif code is ErrorCode.unknown_member_id:
            self._may_expel(group, message)
        elif code is ErrorCode.fenced_instance_id:
            self._may_fence(group, message)

    def _not_behind(self, group: GroupHistory, message: Any, generation: int) -> None:
        if 0 <= generation < group.settled:
            raise Violation(
                f"{type(message).__name__} of generation {generation} is answered OK, when"
                f" generation {group.settled} had been given out",
                message.group_id,
            )

    def _not_replaced(self, group: GroupHistory, message: Any) -> None:
        instance_id = getattr(message, "group_instance_id", None)
        holder = group.holders.get(instance_id) if instance_id is not None else None
        if holder is not None and holder != message.member_id:
            raise Violation(
                f"{message.member_id} is answered OK, though {holder} has its instance id",
                message.group_id,
            )

    def _may_expel(self, group: GroupHistory, message: Any) -> None:
        """Check that a member that got through keeps its session's time."""
        contacts = group.contacts.pop(message.member_id, None)
        if contacts is None or message.member_id in group.left:
            return
        instance_id = contacts.instance_id
        if instance_id is not None and (
            group.holders.get(instance_id) != message.member_id
            or group.challenged.get(instance_id, -1) >= contacts.contact
        ):
            return
        settings = self._world.settings
        number = partition_for(message.group_id, settings.partitions)
        generation, synced_at = contacts.synced
        contact = contacts.contact
        if synced_at <= group.completed.get(generation, -1):
            contact = max(contact, synced_at)
        unheard_ms = self.longest_unheard(number, contact)
        if unheard_ms < EARLY * min(settings.session_timeout_ms, settings.rebalance_timeout_ms):
            raise Violation(
                f"{message.member_id} is expelled, but no leader can have missed it for more than"
                f" {unheard_ms} ms",
                message.group_id,
            )

    def longest_unheard(self, number: int, contact: int) -> int:
        """Return the longest time since then in which one leader has not heard from a member."""
        starts = self.leader_since.get(number, [0])
        ends = [*starts[1:], self._world.now]
        return max(end - max(contact, start) for start, end in zip(starts, ends, strict=True))

    def _may_fence(self, group: GroupHistory, message: Any) -> None:
        instance_id = message.group_instance_id
        contacts = group.contacts.get(message.member_id)
        if contacts is None or group.holders.get(instance_id) != message.member_id:
            return
        if instance_id not in group.challenged:
            raise Violation(
                f"{message.member_id} is fenced, though nobody else has its instance id",
                message.group_id,
            )

    # --- rules by request

    def _heartbeat(self, process: Process, answer: SentAnswer) -> None:
        self._speaks_to(process, answer, answer.response.error_code)

    def _join(self, process: Process, answer: SentAnswer) -> None:
        message, response = answer.message, answer.response
        code = response.error_code
        self.speaks(process, message.group_id, code)
        group = self._group_now(process, message.group_id)
        if code is OK and answer.asked_at >= group.began_at:
            self._not_behind(group, message, response.generation_id)
        elif code is ErrorCode.unknown_member_id:
            self._may_expel(group, message)
        elif code is ErrorCode.fenced_instance_id:
            self._may_fence(group, message)

    def _sync(self, process: Process, answer: SentAnswer) -> None:
        message, response = answer.message, answer.response
        code = response.error_code
        group = self._group_now(process, message.group_id)
        instance_id, generation = message.group_instance_id, message.generation_id
        if code is not OK:
            self._speaks_to(process, answer, code)
            return
        self.speaks(process, message.group_id, code)
        if answer.asked_at < group.began_at:
            return  # the answer waited for its commit, as the group's deletion did
        self._not_behind(group, message, generation)
        group.settled = max(group.settled, generation)
        holder = instance_id or message.member_id
        for place in decode_assignment(response.assignment) or ():
            owners = group.owners.assigned(generation, place, holder)
            if len(owners) > 1:
                raise Violation(
                    f"{place[0]}-{place[1]} of generation {generation} is given to"
                    f" {' and to '.join(owners)}",
                    message.group_id,
                )
        if message.assignments:
            group.completed.setdefault(generation, answer.asked_at)
        contacts = group.contacts.get(message.member_id)
        contact = -1 if contacts is None else contacts.contact
        synced = (generation, answer.asked_at)
        group.contacts[message.member_id] = MemberContact(instance_id, contact, synced)
        if instance_id is not None:
            before = group.holders.get(instance_id)
            if before is not None and before != message.member_id:
                group.contacts.pop(before, None)
            group.holders[instance_id] = message.member_id
            if group.challenged.get(instance_id, -1) < answer.asked_at:
                group.challenged.pop(instance_id, None)

    def _commit(self, process: Process, answer: SentAnswer) -> None:
        for code in self.committed(answer):
            self._speaks_to(process, answer, code)

    def committed(self, answer: SentAnswer) -> set[ErrorCode]:
        """Note which offsets of a commit were accepted, and return all its error codes."""
        message, response = answer.message, answer.response
        now = self._world.now
        codes = set()
        for topic in response.topics:
            for row in topic.partitions:
                codes.add(row.error_code)
        for asked, topic in zip(message.topics, response.topics, strict=True):
            for wanted, row in zip(asked.partitions, topic.partitions, strict=True):
                place = (message.group_id, topic.name, row.partition_index)
                if row.error_code is OK:
                    self._values.acknowledged(place, wanted.committed_offset, now)
                elif row.error_code in AUTHORITATIVE:
                    self._values.refused(place, wanted.committed_offset)
        return codes

    def _fetch(self, process: Process, answer: SentAnswer) -> None:
        """Note what was read; each part of a split answer is checked when it leaves its partition.

        A part may have to wait for another one, even longer than its leader leads.
        """
        partitions = self._world.settings.partitions
        if len({partition_for(each.group_id, partitions) for each in answer.response.groups}) > 1:
            return
        for group in answer.response.groups:
            if group.error_code is OK:
                self.speaks(process, group.group_id, OK)


def _generation(message: Any) -> int:
    if isinstance(message, m.OffsetCommitRequest):
        return message.generation_id_or_member_epoch
    generation: int = message.generation_id
    return generation


CHECKS: Final[Mapping[type, Callable[[ClientHistoryChecker, Process, SentAnswer], None]]] = {
    m.HeartbeatRequest: ClientHistoryChecker._heartbeat,
    m.JoinGroupRequest: ClientHistoryChecker._join,
    m.SyncGroupRequest: ClientHistoryChecker._sync,
    m.OffsetCommitRequest: ClientHistoryChecker._commit,
    m.OffsetFetchRequest: ClientHistoryChecker._fetch,
}
