"""The connections of a load's members: one for each, or some that many members share.

A broker answers the requests of a connection in their order, so a member that waits in JoinGroup
or SyncGroup needs a connection of its own. All other requests are answered at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from bench.client.connection_settings import DEFAULT
from bench.client.stream import Stream
from protocol.members.requests import JOIN_GROUP, SYNC_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kio.static.protocol import RequestPayload

    from bench.client.connection_settings import ConnectionSettings
    from bench.client.coordinator_lookup import Address

WAIT_FOR_OTHERS: Final = frozenset({JOIN_GROUP, SYNC_GROUP})
"""The requests whose answers wait for other members."""


class MemberConnection(Protocol):
    """What a member sends its requests over; it is closed once."""

    address: Address
    is_shared: bool

    def send(self, message: RequestPayload, token: Any) -> None:
        """Send a request; its answer comes with ``token``."""

    def close(self) -> None:
        """Take no more answers. A shared connection stays for the others."""

    def give_up(self) -> None:
        """Close it as no answer came; nobody else gets it."""


class MemberConnections:
    """Connects members to their coordinators; ``members_each`` of them share a connection."""

    def __init__(self, members_each: int = 1, settings: ConnectionSettings = DEFAULT) -> None:
        self._members_each = members_each
        self._settings = settings
        self._filling: dict[Address, _Shared] = {}
        """The shared connection to each node that still takes members."""

    def shares(self, api_key: int) -> bool:
        """Return whether the requests of an API go over a shared connection."""
        return self._members_each > 1 and api_key not in WAIT_FOR_OTHERS

    def open(
        self,
        address: Address,
        client_id: str,
        api_key: int,
        answered: Callable[[Any, Any], None],
        broken: Callable[[], None],
    ) -> MemberConnection:
        """Return a connection for a member's requests of an API.

        ``answered(token, response)`` is called with each answer, and ``broken()`` once, if the
        connection ends before the member has closed it.
        """
        if not self.shares(api_key):
            return _Own(address, client_id, answered, broken, self._settings)
        shared = self._filling.get(address)
        if shared is None or shared.is_full:
            shared = self._filling[address] = _Shared(address, self._members_each, self._settings)
        return _Seat(shared, client_id, answered, broken)


class _Own(Stream):
    """One member's own connection."""

    is_shared = False

    def __init__(
        self,
        address: Address,
        client_id: str,
        answered: Callable[[Any, Any], None],
        broken: Callable[[], None],
        settings: ConnectionSettings,
    ) -> None:
        super().__init__(address, client_id, answered, lambda _tokens: broken(), settings)

    def give_up(self) -> None:
        self.close()


class _Shared:
    """A connection of several members, which is closed with the last of them.

    A place in it is taken once: members that come and go do not keep an old connection alive.
    """

    def __init__(self, address: Address, members: int, settings: ConnectionSettings) -> None:
        self.address = address
        self.is_full = False
        self._left = members
        self._seats: dict[_Seat, None] = {}
        self._stream = Stream(address, "shared", _answered, self._broken, settings)

    def take(self, seat: _Seat) -> None:
        self._seats[seat] = None
        self._left -= 1
        self.is_full = self.is_full or not self._left

    def leave(self, seat: _Seat) -> None:
        self._seats.pop(seat, None)
        if not self._seats:
            self.is_full = True
            self._stream.close()

    def send(self, message: RequestPayload, token: tuple[_Seat, Any], client_id: str) -> None:
        self._stream.send(message, token, client_id)

    def _broken(self, _tokens: Sequence[Any]) -> None:
        self.is_full = True
        seats, self._seats = self._seats, {}
        for seat in seats:
            seat.broken()


class _Seat:
    """One member's part of a shared connection."""

    is_shared = True

    def __init__(
        self,
        shared: _Shared,
        client_id: str,
        answered: Callable[[Any, Any], None],
        broken: Callable[[], None],
    ) -> None:
        self.address = shared.address
        self.broken = broken
        self._shared = shared
        self._client_id = client_id
        self._answered = answered
        self._closed = False
        shared.take(self)

    def send(self, message: RequestPayload, token: Any) -> None:
        self._shared.send(message, (self, token), self._client_id)

    def close(self) -> None:
        self._closed = True
        self._shared.leave(self)

    def give_up(self) -> None:
        self._shared.is_full = True
        self.close()

    def answered(self, token: Any, response: Any) -> None:
        if not self._closed:
            self._answered(token, response)


def _answered(token: tuple[_Seat, Any], response: Any) -> None:
    seat, mine = token
    seat.answered(mine, response)
