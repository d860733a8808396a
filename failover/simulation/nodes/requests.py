"""The requests of one simulated process: those waiting to be served, and those in its host."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from failover.requests.inbox import Inbox, serve
from failover.requests.memo import LeasedAnswers
from protocol.groups.effects import ClientInfo, Request
from protocol.wire import apis
from protocol.wire.apis import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kio.static.protocol import Entity

    from failover.effects import Forward
    from failover.host import Host
    from failover.simulation.world import World
    from protocol.groups.effects import Reply

SERVE_S: Final = 0.001
ASK_S: Final = 0.0002
"""A turn serves requests for a millisecond; each takes a fifth of that."""

FORWARD_MS: Final = 2
CLIENT: Final = ClientInfo("simulated", "/127.0.0.1")


class Answering(Protocol):
    """The destination of an answer: a client's connection, or a node that forwarded a request."""

    def answer(self, token: Any, response: Entity) -> None:
        """Take the answer."""


class AcceptedConnection(Answering, Protocol):
    """A client's connection (:mod:`failover.simulation.nodes.connection`)."""

    tickets: list[int]

    def __hash__(self) -> int:
        """Hash by identity."""

    def close(self) -> None:
        """Close it: the process is gone."""


class PendingRequest(NamedTuple):
    """A request and the destination of its answer; ``at`` is the true time of its arrival."""

    end: Any
    token: Any
    message: Entity
    at: int


class SentAnswer(NamedTuple):
    """An answer that a process sent: the request, and when it arrived (``asked_at``, true time)."""

    message: Any
    response: Any
    asked_at: int


class Origin(Protocol):
    """A process that forwards requests; ``life`` counts its starts."""

    life: int

    def event(self, method: Callable[..., Any], *arguments: Any) -> None:
        """Pass an event to the host."""


class ForwardedFrom:
    """The return path of a request that another node forwarded."""

    def __init__(self, origin: Origin, world: World) -> None:
        self._origin, self._life, self._world = origin, origin.life, world

    def answer(self, token: Any, response: Entity | None) -> None:
        """Return the answer to the node; None when the leader was not reached."""
        self._world.after(FORWARD_MS, self._arrive, token, response)

    def _arrive(self, token: Any, response: Entity | None) -> None:
        if self._origin.life == self._life:
            self._origin.event(_forwarded, token, response)


class RequestQueue:
    """``open`` has the requests passed to the host and not answered yet, by ticket."""

    def __init__(self) -> None:
        self.open: dict[int, PendingRequest] = {}
        self._connections: dict[AcceptedConnection, None] = {}
        self._tickets = 0
        self._spent_s = 0.0
        self.begin()

    def begin(self) -> None:
        """Start with a process that has no requests."""
        self.open.clear()
        self._connections.clear()
        self._waiting: Inbox[PendingRequest] = Inbox(attrgetter("end"))
        self._memo: LeasedAnswers[Entity] = LeasedAnswers()

    def end(self, closed: Callable[[AcceptedConnection], None]) -> None:
        """End with the process: call ``closed`` for each connection, fail forwarded requests."""
        for connection in self._connections:
            closed(connection)
        self._connections.clear()
        for asked in self.open.values():
            self.fail(asked)
        self.open.clear()

    def fail(self, asked: PendingRequest) -> None:
        """Tell a node that forwarded a request that it has no answer; a client is not told."""
        if isinstance(asked.end, ForwardedFrom):
            asked.end.answer(asked.token, None)

    # --- incoming

    def recall(self, message: Entity, now: Callable[[], int]) -> Entity | None:
        """Return the cached answer to a request that may be repeated, if there is one."""
        if not apis.api_of(message).group.is_leased:
            return None
        return self._memo.recall(message, now)  # type: ignore[arg-type]  # frozen

    def push(self, connection: AcceptedConnection, token: Any, message: Entity, at: int) -> None:
        """Queue a client's request until a turn serves it."""
        self._connections[connection] = None
        asked = PendingRequest(connection, token, message, at)
        self._waiting.push(getattr(message, "group_id", connection), asked)

    def push_forwarded(self, forward: Forward, back: ForwardedFrom, at: int) -> Request:
        """Take a request that another node forwards; return it with a ticket of this process."""
        message = forward.request.message
        return self._opened(PendingRequest(back, forward.request.ticket, message, at))

    def abandoned(self, connection: AcceptedConnection) -> list[int]:
        """Forget a connection that its client has closed; return the tickets it waits for."""
        self._connections.pop(connection, None)
        return [ticket for ticket in connection.tickets if ticket in self.open]

    # --- serving and answering

    @property
    def are_waiting(self) -> bool:
        """Whether requests wait to be served."""
        return bool(self._waiting)

    def serve(self, receive: Callable[[Request], None]) -> bool:
        """Pass on waiting requests for a millisecond; return whether others still wait."""
        return serve(
            self._waiting, lambda asked: self._ask(asked, receive), lambda: self._spent_s, SERVE_S
        )

    def _ask(self, asked: PendingRequest, receive: Callable[[Request], None]) -> None:
        self._spent_s += ASK_S
        if asked.end in self._connections:
            request = self._opened(asked, self._waiting.following)
            asked.end.tickets = [request.ticket]
            receive(request)

    def _opened(self, asked: PendingRequest, following: int = 0) -> Request:
        self._tickets += 1
        self.open[self._tickets] = asked
        api = apis.api_of(asked.message)
        return Request(
            ticket=self._tickets,
            api_key=api.key,
            # Members of groups name topics by name; fetches use topic ids.
            api_version=api.max_version if api.route is Route.NODE else api.newest_by_name,
            client=CLIENT,
            message=asked.message,
            following=following,
        )

    def answer(self, asked: PendingRequest, reply: Reply) -> None:
        """Answer a request; keep the answer if it may be repeated."""
        if reply.lease is not None and asked.end in self._connections:
            self._memo.remember(cast("Hashable", asked.message), reply.lease, reply.message)
        asked.end.answer(asked.token, reply.message)


def _forwarded(host: Host, ticket: int, response: Entity | None, _now: int) -> None:
    host.forwarded(ticket, response)
