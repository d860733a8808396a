"""Route the client requests of one process to where they are answered.

Each API has a route (:mod:`protocol.wire.apis`): the node itself, the group's partition, several
partitions, or the catalogue, which another node may lead. Requests that cannot be answered yet wait
here. What groups ask of the catalogue and of share coordinators is sent from here, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from failover.apis.table import NODE_HANDLERS
from failover.catalogue.cluster_view import DelayedResponse, Mutating
from failover.partition_kinds import CATALOG, SHARE_STATE
from failover.partitions.containment import HandlerFailed, PartitionFailed, asked
from failover.partitions.partition import PartitionState
from failover.requests.creations import Creations
from failover.requests.delayed_replies import DelayedReplies
from failover.requests.fanout import Fanout, RequestPart
from failover.requests.forwards import Forwards
from failover.requests.pending_find_coordinator import PendingFindCoordinator
from failover.requests.share_calls import CallerTerm, ShareCalls
from failover.routing import partition_for
from protocol.groups.effects import ClientInfo, Reply, Request
from protocol.groups.share_state import parts as share_parts
from protocol.reasons import reason, shown
from protocol.wire import apis
from protocol.wire.apis import Route
from protocol.wire.errors import ErrorCode, KafkaError
from storage.log import NOBODY, LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kio.static.protocol import Entity

    from failover.host_state import HostState
    from failover.requests.share_calls import Sending
    from protocol.groups.effects import Event, Ticket

PARTITION_LOST: Final = (PartitionFailed, LogError)
"""Not the error of one request: the process restarts from its log."""


class Requests:
    """The requests of one process; replies go to its effects."""

    def __init__(self, host_state: HostState, now: int) -> None:
        self._state = host_state
        self._fanout = Fanout()
        self._creations = Creations()
        self._delayed_replies = DelayedReplies()
        self._forwards = Forwards()
        self._pending_lookups = PendingFindCoordinator(host_state.identity.partitions, now)
        self._share_calls = ShareCalls(host_state.identity.partitions, self._fanout.draw_ticket)
        self._all_waiting = (
            self._delayed_replies,
            self._forwards,
            self._pending_lookups,
            self._share_calls,
        )

    # --- incoming

    def receive(self, request: Request, now: int) -> None:
        """Take a client's request; a request that fails does not stop the process."""
        try:
            for part in ROUTES[apis.API[request.api_key].route](self, request, now):
                self.ask(part, now)
        except PARTITION_LOST:
            raise
        except Exception as error:
            self._failed(request, reason(error))

    def ask(self, part: RequestPart, now: int) -> None:
        """Answer from a partition that is led here; refuse where it is not led."""
        partition, request = self._state.all.get(part.partition), part.request
        if partition is None:
            self._refuse(request, ErrorCode.not_coordinator)
        elif partition.state is PartitionState.LEADER:
            if partition.lacks_lease:
                partition.defer(request, part.groups)
                return
            self._state.schedule.touch(partition.number)
            try:
                partition.handle(request, now, part.groups)
            except HandlerFailed as error:
                self._failed(request, str(error))
        elif not partition.is_coming:
            self._refuse(request, ErrorCode.not_coordinator)
        elif apis.API[request.api_key].group.is_believed and partition.is_believing(now):
            self._refuse(request, ErrorCode.none)
        else:
            self._refuse(request, ErrorCode.coordinator_load_in_progress)

    def forwarded(self, ticket: Ticket, response: Entity | None) -> None:
        """Take the catalogue leader's answer to a forward; None: the leader was not reached."""
        request = self._forwards.answered(ticket)
        if request is None:
            return
        if response is None:
            self._refuse(request, ErrorCode.request_timed_out)
        else:
            self._reply(request, response)

    def abandon(self, ticket: Ticket) -> None:
        """Forget a parked request whose client has disconnected."""
        self._delayed_replies.abandon(ticket)
        self._pending_lookups.abandon(ticket)

    def leader_lost(self, partition: int, now: int) -> None:
        """Note that a partition's leader is gone, or cannot be reached from here."""
        self._pending_lookups.lost(partition, now)

    def leader_found(self, partition: int, now: int) -> None:
        """Answer the requests that waited for a partition's leader."""
        for request in self._pending_lookups.found(partition):
            self._to_node(request, now)

    def catalog_found(self, now: int) -> None:
        """Send the requests that waited for a leader of the catalogue."""
        for request in self._forwards.take_waiting():
            self.receive(request, now)

    # --- waiting

    def tick(self, now: int) -> None:
        """Answer what has waited long enough, and let more be sent."""
        self._state.effects.replies += self._delayed_replies.due(now)
        for request in self._pending_lookups.due(now):
            self._answer_here(request, now)
        for request in self._forwards.overdue(now):
            self._refuse(request, ErrorCode.not_controller)
        self._share_calls.tick()

    def next_deadline(self) -> int | None:
        """Return when to call :meth:`tick` next; None: not at all."""
        deadlines = [
            at for each in self._all_waiting if each and (at := each.next_deadline()) is not None
        ]
        return min(deadlines, default=None)

    def merge(self, replies: list[Reply]) -> list[Reply]:
        """Replace the parts of split requests by the whole answers, where all parts are there."""
        return [*self._merged(replies)] if self._fanout.under_way else replies

    def _merged(self, replies: Sequence[Reply]) -> Iterator[Reply]:
        for reply in replies:
            if reply.ticket >= 0:
                yield reply
            elif self._creations.take(reply) or self._share_calls.take(reply.ticket, reply.message):
                continue
            elif (merged := self._fanout.merged(reply)) is not None:
                yield merged

    # --- what groups need of others

    @property
    def has_news(self) -> bool:
        """Whether answers for groups wait for :meth:`ask_others`."""
        return self._share_calls.has_news or self._creations.has_news

    def ask_others(self, now: int) -> list[tuple[int, Event]]:
        """Send what groups ask of the catalogue and of share coordinators.

        Return the answers that have arrived, each with its group's partition.
        """
        effects = self._state.effects
        creations, effects.creations = effects.creations, []
        for partition, task in creations:
            ticket = self._fanout.draw_ticket()
            self._creations.begin(ticket, partition, task)
            self.receive(_own_request(ticket, task.request), now)
        calls, effects.calls = effects.calls, []
        for partition, call in calls:
            self._share_calls.begin(
                call, CallerTerm(self._state.groups[partition], self._state.schedule.touch)
            )
        answered: list[tuple[int, Event]] = [*self._creations.take_answered()]
        if self._share_calls:
            sendings, answers = self._share_calls.step(now)
            for sending in sendings:
                self._send(sending, now)
            answered += answers
        return answered

    def _send(self, sending: Sending, now: int) -> None:
        """Send a part of a group's call to a share coordinator, here or on another node."""
        state, number = self._state, SHARE_STATE.number(sending.partition)
        request = _own_request(sending.ticket, sending.message)
        partition, leader = state.all.get(number), state.leaders.of(number)
        if partition is not None and partition.state is PartitionState.LEADER:
            self.ask(RequestPart(number, request, ()), now)
        elif leader in (NOBODY, state.identity.node_id) or leader in state.unlinked:
            self._refuse(request, ErrorCode.coordinator_not_available)
        else:
            state.effects.forwards.append(self._forwards.carry(request, leader))

    # --- routes

    def _to_node(self, request: Request, now: int) -> Sequence[RequestPart]:
        if not self._pending_lookups.delay(request, now):
            self._answer_here(request, now)
        return ()

    def _answer_here(self, request: Request, now: int) -> None:
        try:
            answer = NODE_HANDLERS[request.api_key](self._state.view, request, now)
        except KafkaError as error:
            self._refuse(request, error.code, error.message)
        except Exception as error:
            self._failed(request, reason(error))
        else:
            if isinstance(answer, DelayedResponse):
                self._delayed_replies.delay(request.ticket, answer.response, answer.deadline_ms)
            elif isinstance(answer, Mutating):
                self._reply(request, answer.response)
                self._mutate(request, answer.mutation, now)
            else:
                self._reply(request, answer)

    def _to_group(self, request: Request, now: int) -> Sequence[RequestPart]:  # noqa: ARG002 - as every route
        group_id = apis.group_id(request.message)
        if not group_id and apis.API[request.api_key].group.needs_id:
            self._refuse(request, ErrorCode.invalid_group_id)
            return ()
        return (RequestPart(self._partition_for(group_id), request, ()),)

    def _to_groups(self, request: Request, now: int) -> Sequence[RequestPart]:  # noqa: ARG002 - as every route
        parts = self._fanout.split(request, self._partition_for)
        if not parts:
            self._reply(request, apis.merge(request.api_key, request.message, ()))
        return parts

    def _to_all(self, request: Request, now: int) -> Sequence[RequestPart]:  # noqa: ARG002 - as every route
        """Send the request to every partition that is led here, or is about to be."""
        asked = [
            number
            for number, partition in self._state.groups.items()
            if partition.state is PartitionState.LEADER or partition.is_coming
        ]
        if not asked:
            self._refuse(request, ErrorCode.none)
        return self._fanout.copy(request, asked)

    def _to_share_state(self, request: Request, now: int) -> Sequence[RequestPart]:  # noqa: ARG002 - as every route
        message = request.message
        if share_parts.is_empty(message):
            self._reply(request, apis.API[request.api_key].response(results=()))  # type: ignore[call-arg]
            return ()
        cut = share_parts.split(message, self._state.identity.partitions)
        numbered = [(SHARE_STATE.number(index), part) for index, part in cut]
        if len(numbered) == 1:
            return (RequestPart(numbered[0][0], request, ()),)
        group_id: str = message.group_id  # type: ignore[attr-defined]  # all of them have one
        return self._fanout.parts(
            request, {number: ((group_id,), part) for number, part in numbered}
        )

    def _to_catalog(self, request: Request, now: int) -> Sequence[RequestPart]:
        """Change the catalogue here if it is led here, else once it has a leader anywhere."""
        host_state = self._state
        partition, leader = host_state.catalog, host_state.leaders.of(CATALOG.first)
        if partition.state is PartitionState.LEADER:
            return (RequestPart(CATALOG.first, request, ()),)
        if leader in (NOBODY, host_state.identity.node_id) or leader in host_state.unlinked:
            self._forwards.wait(request, now)
        else:
            host_state.effects.forwards.append(self._forwards.carry(request, leader))
        return ()

    def _partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self._state.identity.partitions)

    def _mutate(self, request: Request, mutation: Entity, now: int) -> None:
        """Change the catalogue on a client's behalf; the answer is dropped."""
        key = int(type(mutation).__api_key__)  # type: ignore[attr-defined]  # every payload has one
        own = replace(
            request,
            ticket=self._fanout.draw_ticket(),
            api_key=key,
            api_version=apis.API[key].max_version,
            message=mutation,
        )
        self.receive(own, now)

    # --- replies

    def _reply(self, request: Request, message: Entity) -> None:
        self._state.effects.replies.append(Reply(request.ticket, message))

    def _refuse(self, request: Request, code: ErrorCode, message: str | None = None) -> None:
        self._reply(
            request,
            apis.error_response(
                request.api_key, request.message, code, message, request.api_version
            ),
        )

    def _failed(self, request: Request, why: str) -> None:
        group_id = getattr(request.message, "group_id", None)
        about = "" if group_id is None else f" for group {shown(group_id)}"
        self._state.effects.notes.append(f"{asked(request)}{about} failed: {why}")
        try:
            self._refuse(request, ErrorCode.unknown_server_error)
        except Exception as error:
            self._state.effects.notes.append(f"{asked(request)} gets no answer: {reason(error)}")


def _own_request(ticket: Ticket, message: Entity) -> Request:
    """Make a request of this node's own."""
    key = int(type(message).__api_key__)  # type: ignore[attr-defined]  # every payload has one
    return Request(
        ticket=ticket,
        api_key=key,
        api_version=apis.API[key].max_version,
        client=ClientInfo("", ""),
        message=message,
    )


ROUTES: Final[Mapping[Route, Callable[[Requests, Request, int], Sequence[RequestPart]]]] = {
    Route.NODE: Requests._to_node,
    Route.GROUP: Requests._to_group,
    Route.GROUPS: Requests._to_groups,
    Route.ALL_GROUPS: Requests._to_all,
    Route.SHARE_STATE: Requests._to_share_state,
    Route.CATALOG: Requests._to_catalog,
}
