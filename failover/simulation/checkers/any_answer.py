"""Rules for every answer, of any API: members that left and deleted things never reappear."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from failover.routing import partition_for
from failover.simulation.event_log import Violation
from failover.simulation.kinds import is_modern
from protocol.wire import apis
from protocol.wire import messages as m
from protocol.wire.apis import Route
from protocol.wire.convert import unwrap
from protocol.wire.errors import ErrorCode
from protocol.wire.streams_messages import StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kio.static.protocol import Entity

    from failover.simulation.checkers.values import Erasures, Place, Values
    from failover.simulation.nodes.process import Process
    from failover.simulation.nodes.requests import SentAnswer
    from failover.simulation.world import World

OK: Final = ErrorCode.none
HEARTBEATS: Final = (
    m.ConsumerGroupHeartbeatRequest,
    m.ShareGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
)
_PATHS: Final[dict[Any, tuple[tuple[str, bool, bool], ...]]] = {}


@dataclass(frozen=True, slots=True)
class Leaving:
    """A classic member that left: permanently gone once its leader completes a later generation.

    As in Kafka, nothing is written before that: the next leader may still know the member, and so
    may a group that is rebuilt from the log.
    """

    member_id: str
    epoch: int | None
    generation: int


class AnyAnswer:
    """Tracks members that left and what was deleted, and checks every answer.

    ``gone`` are the members of each group whose leave was acknowledged. ``committed_epoch`` returns
    the epoch of a partition's last committed record.
    """

    def __init__(self, world: World, values: Values) -> None:
        self._world = world
        self._values = values
        self._erasing: dict[int, tuple[Entity, list[Erasures]]] = {}
        self._leaving: dict[str, list[Leaving]] = {}
        self._generations: dict[str, int] = {}
        self.gone: dict[str, dict[str, int]] = {}
        self.committed_epoch: Callable[[Process, int], int] = lambda _process, _number: 0

    def asked(self, message: Any) -> None:
        """Note a request that reached a node."""
        erases = ERASED.get(type(message))
        if erases is not None:
            self._erasing[id(message)] = message, erases(self._values, message, self._world.now)
        elif _is_heartbeat(message) and message.member_epoch == 0:
            self.gone.get(message.group_id, {}).pop(message.member_id, None)  # it returns

    def answered(self, process: Process, answer: SentAnswer) -> None:
        """Check an answer."""
        message, response = answer.message, answer.response
        codes = set(codes_of(response))
        name = type(message).__name__
        self._world.calls[name, OK in codes or not codes] += 1
        may_fail = self._world.may_fail or isinstance(message, m.JoinGroupRequest)
        if ErrorCode.unknown_server_error in codes and not may_fail:
            raise Violation(f"node {process.node_id} answers {name} with UNKNOWN_SERVER_ERROR")
        api = apis.api_of(message)
        if api.route is Route.GROUPS:
            _is_complete(process, api.key, message, response)
        if type(message) in ERASED:
            self._erased(message, response)
        elif isinstance(message, m.LeaveGroupRequest):
            self._left(process, message, response)
        elif _is_heartbeat(message) and message.member_epoch == -1:
            if response.error_code is OK:
                self._is_gone(message.group_id, message.member_id)
        elif isinstance(message, m.JoinGroupRequest | m.SyncGroupRequest):
            if response.error_code is OK:
                self._follow(process, message, response)
                self._stay_gone(answer)
        elif self.gone and not self._is_believed(process, message):
            self._stay_gone(answer)

    def restored(self, group_id: str) -> None:
        """Note that a group was rebuilt from the log: it may know members again that left."""
        self._leaving.pop(group_id, None)

    def forget(self) -> None:
        """Note that all groups are gone: generations restart."""
        self._leaving.clear()
        self._generations.clear()

    def _erased(self, message: Any, response: Any) -> None:
        known = self._erasing.pop(id(message), None)
        if known is None:
            return
        refused = REFUSED[type(message)](response)
        for erasures in known[1]:
            erasures.is_over = refused((erasures.group_id, "", 0)) in DEFINITE
            for place, erasure in erasures.by_place:
                why = refused(place)
                if why is OK:
                    self._values.erased(place, erasure, self._world.now)
                elif why in DEFINITE:
                    erasure.is_refused = True

    def _left(self, process: Process, message: Any, response: Any) -> None:
        if response.error_code is not OK:
            return
        group_id = message.group_id
        epoch = process.leads(partition_for(group_id, process.identity.partitions))
        generation = self._generations.get(group_id, 0)
        self._leaving.setdefault(group_id, []).extend(
            Leaving(row.member_id, epoch, generation)
            for row in response.members
            if row.error_code is OK and row.member_id
        )

    def _follow(self, process: Process, message: Any, response: Any) -> None:
        """Track generations; a later one makes the departure of members final."""
        group_id = message.group_id
        if isinstance(message, m.JoinGroupRequest):
            known = self._generations.get(group_id, 0)
            self._generations[group_id] = max(known, response.generation_id)
        elif leaving := self._leaving.get(group_id):
            epoch = process.leads(partition_for(group_id, process.identity.partitions))
            kept = self._leaving[group_id] = []
            for each in leaving:
                if each.epoch == epoch and message.generation_id > each.generation:
                    self._is_gone(group_id, each.member_id)
                elif each.epoch == epoch:
                    kept.append(each)

    def _is_gone(self, group_id: str, member_id: str) -> None:
        self.gone.setdefault(group_id, {})[member_id] = self._world.now

    def _is_believed(self, process: Process, message: Any) -> bool:
        """Whether a heartbeat may be answered without the state, as Kafka does on loading."""
        if not isinstance(message, m.HeartbeatRequest):
            return False
        number = partition_for(message.group_id, process.identity.partitions)
        epoch = process.leads(number)
        return epoch is not None and self.committed_epoch(process, number) < epoch

    def _stay_gone(self, answer: SentAnswer) -> None:
        """Check that no member that left is answered as a member, or shown as one."""
        message, response = answer.message, answer.response
        for group_id, member_id in _members(message, response):
            left_at = self.gone.get(group_id, {}).get(member_id)
            if left_at is not None and left_at < answer.asked_at:
                raise Violation(
                    f"{member_id} left at {left_at} ms, and is a member all the same:"
                    f" {type(response).__name__}",
                    group_id,
                )


def _is_heartbeat(message: Any) -> bool:
    """Whether this is a heartbeat of a member whose id is its own (callers take turns with one)."""
    return isinstance(message, HEARTBEATS) and is_modern(message.group_id)


def _is_complete(process: Process, key: int, message: Any, response: Any) -> None:
    """Check that an answer about several groups mentions each exactly once."""
    asked = sorted(apis.group_ids(key, message))
    (parts,) = (
        getattr(response, name) for name in ("groups", "results") if hasattr(response, name)
    )
    told = sorted(part.group_id for part in parts)
    if asked != told:
        raise Violation(
            f"node {process.node_id} answers {type(response).__name__} about {told}, asked was"
            f" about {asked}"
        )


def _members(message: Any, response: Any) -> Iterator[tuple[str, str]]:
    """Return the members that an answer treats or shows as members, with their groups."""
    if isinstance(message, m.DescribeGroupsRequest | m.ConsumerGroupDescribeRequest):
        for group in response.groups:
            for member in group.members:
                yield group.group_id, member.member_id
    elif (member_id := getattr(message, "member_id", "")) and _is_served(response):
        yield message.group_id, member_id
    if isinstance(message, m.JoinGroupRequest):
        for member in response.members:
            yield message.group_id, member.member_id


def _is_served(response: Any) -> bool:
    return any(code is OK for code in codes_of(response))


def codes_of(response: Any) -> Iterator[ErrorCode]:
    """Return every error code of a response, at any depth."""
    for name, is_code, is_array in _paths(type(response)):
        value = getattr(response, name)
        if is_code:
            yield value
        elif is_array:
            for each in value or ():
                yield from codes_of(each)
        elif value is not None:
            yield from codes_of(value)


def _paths(cls: Any) -> tuple[tuple[str, bool, bool], ...]:
    """Return the fields of a class that are or contain error codes: (is code, is array)."""
    if (known := _PATHS.get(cls)) is not None:
        return known
    found = []
    for column in fields(cls):
        kind, is_array, _ = unwrap(column)
        if kind is ErrorCode:
            found.append((column.name, True, is_array))
        elif is_dataclass(kind) and _paths(kind):
            found.append((column.name, False, is_array))
    _PATHS[cls] = tuple(found)
    return _PATHS[cls]


# --- requests that delete offsets: what they delete, and the error for each place


def _by_offset_delete(values: Values, message: Any, now: int) -> list[Erasures]:
    places = [
        (message.group_id, topic.name, row.partition_index)
        for topic in message.topics
        for row in topic.partitions
    ]
    return [values.erases(message.group_id, places, now)]


def _by_delete_groups(values: Values, message: Any, now: int) -> list[Erasures]:
    return [values.erases_group(group_id, now) for group_id in message.groups_names]


def _told_by_offset_delete(response: Any) -> Callable[[Place], ErrorCode]:
    codes = {
        (topic.name, row.partition_index): row.error_code
        for topic in response.topics
        for row in topic.partitions
    }
    return lambda place: codes.get(place[1:], response.error_code)


def _told_by_delete_groups(response: Any) -> Callable[[Place], ErrorCode]:
    codes = {row.group_id: row.error_code for row in response.results}
    return lambda place: codes.get(place[0], ErrorCode.not_coordinator)


ERASED: Final[Mapping[type, Callable[[Values, Any, int], list[Erasures]]]] = {
    m.OffsetDeleteRequest: _by_offset_delete,
    m.DeleteGroupsRequest: _by_delete_groups,
}
REFUSED: Final[Mapping[type, Callable[[Any], Callable[[Place], ErrorCode]]]] = {
    m.OffsetDeleteRequest: _told_by_offset_delete,
    m.DeleteGroupsRequest: _told_by_delete_groups,
}
DEFINITE: Final = frozenset(
    {
        OK,
        ErrorCode.group_subscribed_to_topic,
        ErrorCode.non_empty_group,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.group_id_not_found,
    }
)
"""Codes of a node that knows the group: with an error, nothing was deleted."""
