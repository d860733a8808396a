"""What groups ask of share coordinators: split, sent, tried again, and answered to the group.

As Kafka's persister, it belongs to the node and not to a group. The share state of a group's
partitions is in several partitions of ``__share_group_state``, led by any nodes. A call is a few
parts, each to one of them; at most :data:`PARTS_SENT` of a call and :data:`CALLS_MAX` calls are
under way, and the others wait. The calls send in rotation, and only so much in a turn that clients
are served in between: share state that this node leads itself is changed in the same turn. A part
whose coordinator has moved, or is not reached, is sent again a few times, ever later. A call ends
with the leadership that made it: a new leader of the group asks again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from failover.partitions.partition import PartitionState
from protocol.groups.effects import ShareStateAnswered
from protocol.groups.share_state import parts
from protocol.wire import apis
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from kio.static.protocol import Entity

    from failover.partitions.partition import Partition
    from protocol.groups.effects import CallShareState, Ticket

CALLS_MAX: Final = 64
"""Calls under way at a time; each group has one or a few, each client's request one."""

PARTS_SENT: Final = 4
"""Parts of a call that are sent and not answered."""

PARTITIONS_MAX: Final = 50
"""Partitions of topics in a part: about two milliseconds of a share coordinator."""

TURN_PARTITIONS: Final = 50
"""In one turn, no more parts are sent once they are about so many partitions."""

ATTEMPTS: Final = 6
"""How often a part is sent: for about six seconds, longer than an election takes."""

FIRST_RETRY_MS: Final = 200
"""The pause after the first attempt; each is twice as long as the one before."""

ANSWER_MS: Final = 30_000
"""A part that is not answered for so long counts as not reached."""

LEASE_MS: Final = 50
"""The pause while the group's leader waits for a lease."""

INITIALIZE: Final = 83

AGAIN: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.request_timed_out,
    }
)
"""The errors after which a partition is asked for again."""


class CallerTerm:
    """The leadership of a partition under which one of its groups made a call."""

    def __init__(self, partition: Partition, touch: Callable[[int], None]) -> None:
        self.partition = partition
        self._leader = partition.leader
        self._touch = touch

    @property
    def holds(self) -> bool:
        """Whether this node still believes that it leads."""
        partition = self.partition
        return partition.state is PartitionState.LEADER and partition.leader == self._leader

    def may_send(self, now: int) -> bool:
        """Whether no other node can lead now; ask for a lease otherwise."""
        partition = self.partition
        if partition.leadership.lease_until_ms > now:
            return True
        self._touch(partition.number)
        partition.replica.need_lease(now)
        return False


class Sending(NamedTuple):
    """A part to send: to which partition, under which ticket."""

    ticket: Ticket
    partition: int
    message: Entity
    group_id: str


@dataclass(slots=True, eq=False)
class _Part:
    number: int
    message: Any
    attempts: int = 0
    due_ms: int = 0


@dataclass(slots=True, eq=False)
class _Call:
    """A call, and its parts that are not answered; ``answers`` has the results so far."""

    task: CallShareState
    term: CallerTerm
    waiting: deque[_Part] = field(default_factory=deque)
    sent: dict[Ticket, _Part] = field(default_factory=dict)
    answers: list[Entity] = field(default_factory=list)


class ShareCalls:
    """The calls of one process, in the order in which groups made them.

    ``has_news``: an answer has arrived since the last :meth:`step`. Parts are sent until ``_room``,
    in partitions, is used up; :meth:`tick` makes room again.
    """

    def __init__(self, partitions: int, draw_ticket: Callable[[], Ticket]) -> None:
        """``partitions`` is how many ``__share_group_state`` has."""
        self._partitions = partitions
        self._draw_ticket = draw_ticket
        self._queue: deque[_Call] = deque()
        self._under_way: deque[_Call] = deque()
        self._of: dict[Ticket, _Call] = {}
        self._arrived: list[tuple[Ticket, Any]] = []
        self._room = TURN_PARTITIONS
        self.has_news = False

    def __bool__(self) -> bool:
        return bool(self._queue or self._under_way)

    def begin(self, task: CallShareState, term: CallerTerm) -> None:
        """Take a call of a group."""
        self._queue.append(_Call(task, term))

    def take(self, ticket: Ticket, response: Entity) -> bool:
        """Take the answer to a part; return whether it was one."""
        if ticket not in self._of:
            return False
        self._arrived.append((ticket, response))
        self.has_news = True
        return True

    def tick(self) -> None:
        """Make room for the parts of another turn."""
        self._room = TURN_PARTITIONS

    def step(self, now: int) -> tuple[list[Sending], list[tuple[int, ShareStateAnswered]]]:
        """Return the parts to send now, and the whole answers, each with its group's partition."""
        arrived, self._arrived, self.has_news = self._arrived, [], False
        for ticket, response in arrived:
            self._answered(ticket, response, now)
        for call in self._under_way:
            for ticket in [each for each, part in call.sent.items() if part.due_ms <= now]:
                self._lost(call, ticket, now)
        done = [call for call in self._under_way if self._is_done(call)]
        if done:
            self._under_way = deque(call for call in self._under_way if call not in done)
        while self._queue and len(self._under_way) < CALLS_MAX:
            call = self._queue.popleft()
            if call.term.holds:
                message = call.task.request
                cut = parts.split(message, self._partitions, PARTITIONS_MAX)
                call.waiting.extend(_Part(number, part) for number, part in cut)
                self._under_way.append(call)
        return [*self._sendings(now)], [_answer(call) for call in done if call.term.holds]

    def next_deadline(self) -> int | None:
        """Return when :meth:`step` is next due; None: only an answer changes anything."""
        return min(
            (
                part.due_ms
                for call in self._under_way
                for part in (*_first(call), *call.sent.values())
            ),
            default=None,
        )

    def _sendings(self, now: int) -> Iterator[Sending]:
        """Send a part of one call after the other, while there is room."""
        calls, refused = self._under_way, 0
        while self._room > 0 and refused < len(calls):
            call = calls[0]
            calls.rotate(-1)
            sending = self._sending(call, now)
            if sending is None:
                refused += 1
                continue
            refused = 0
            topics = sending.message.topics  # type: ignore[attr-defined]  # every request has them
            self._room -= sum(len(topic.partitions) for topic in topics)
            yield sending

    def _sending(self, call: _Call, now: int) -> Sending | None:
        """Send the next part of a call that may be sent; None: there is none."""
        for _ in range(len(call.waiting)):
            if len(call.sent) >= PARTS_SENT:
                break
            part = call.waiting.popleft()
            if part.due_ms <= now and not call.term.may_send(now):
                part.due_ms = now + LEASE_MS
            if part.due_ms > now:
                call.waiting.append(part)
                continue
            ticket = self._draw_ticket()
            part.attempts += 1
            part.due_ms = now + ANSWER_MS
            call.sent[ticket] = part
            self._of[ticket] = call
            return Sending(ticket, part.number, part.message, call.task.group_id)
        return None

    def _lost(self, call: _Call, ticket: Ticket, now: int) -> None:
        message = call.sent[ticket].message
        key = int(type(message).__api_key__)
        self._answered(ticket, apis.error_response(key, message, ErrorCode.request_timed_out), now)
        assert ticket not in call.sent

    def _answered(self, ticket: Ticket, response: Any, now: int) -> None:
        """Keep what is done; send what is not again, while there are attempts left."""
        call = self._of.pop(ticket)
        part = call.sent.pop(ticket)
        left = _to_repeat(part.message, response) if part.attempts < ATTEMPTS else None
        if left is None:
            call.answers.append(response)
            return
        message, good = left
        call.answers.append(good)
        part.message = message
        part.due_ms = now + FIRST_RETRY_MS * 2 ** (part.attempts - 1)
        call.waiting.append(part)

    def _is_done(self, call: _Call) -> bool:
        if call.waiting or call.sent:
            if call.term.holds:
                return False
            for ticket in call.sent:
                del self._of[ticket]
        return True


def _first(call: _Call) -> Iterator[_Part]:
    """Return the parts that wait for their time, if any may be sent."""
    return iter(call.waiting if len(call.sent) < PARTS_SENT else ())


def _to_repeat(message: Any, response: Any) -> tuple[Any, Any] | None:
    """Return what to ask again, and what is answered; None if nothing has to be repeated.

    The node that a group is on may know a new topic before the share coordinator's does.
    """
    is_new = type(message).__api_key__ == INITIALIZE
    again = AGAIN | {ErrorCode.unknown_topic_or_partition} if is_new else AGAIN
    places = {
        (topic.topic_id, row.partition)
        for topic in response.results
        for row in topic.partitions
        if row.error_code in again
    }
    if not places:
        return None
    return (
        replace(message, topics=_cut(message.topics, places, are_in=True)),
        replace(response, results=_cut(response.results, places, are_in=False)),
    )


def _cut(topics: Sequence[Any], places: Container[tuple[Any, int]], *, are_in: bool) -> Any:
    cut = [
        replace(
            topic,
            partitions=tuple(
                row
                for row in topic.partitions
                if ((topic.topic_id, row.partition) in places) is are_in
            ),
        )
        for topic in topics
    ]
    return tuple(topic for topic in cut if topic.partitions)


def _answer(call: _Call) -> tuple[int, ShareStateAnswered]:
    task = call.task
    key = int(type(task.request).__api_key__)  # type: ignore[attr-defined]  # every payload has one
    response = parts.merge(key, task.request, call.answers)
    answered = ShareStateAnswered(group_id=task.group_id, call=task.call, response=response)
    return call.term.partition.number, answered
