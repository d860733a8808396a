"""A small blocking Kafka admin client: sends requests to a broker, a coordinator or all brokers.

Requests and responses have the newest version of their API; the connection converts them to the
version that the broker supports.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Final

from actors.client.blocking import BlockingConnection
from actors.client.login import LoginError
from actors.client.security import PLAINTEXT
from actors.errors import ExitCode, FailureError
from actors.waiting import poll
from protocol.client.connection import NotServedError as BrokerApiNotServedError
from protocol.listeners import host_and_port
from protocol.wire.apis import API
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import BadFrame, FrameError
from protocol.wire.messages import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from kio.static.protocol import Entity

    from actors.client.security import Security

Address = tuple[str, int]

CLIENT_ID: Final = "rollcall-admin"
GROUP_KEY, SHARE_KEY = 0, 2
"""What a key of FindCoordinator is: a group, or ``group:topic:partition`` of share state."""

TIMEOUT_S: Final = 15.0
BACKOFF_S: Final = 0.1

QUESTIONS: Final = frozenset({FindCoordinatorRequest, MetadataRequest})
"""The requests to any broker that change nothing."""

COORDINATORS_MAX: Final = 256
"""Groups whose coordinators a client remembers, those that were asked last."""

MOVING: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""Errors that are temporary while a coordinator starts or moves."""


class ClientError(FailureError):
    """A request failed; ``str(error)`` is one sentence for the operator."""


class ApiNotServedError(ClientError):
    """The broker supports no version of an API that this client supports."""


class NoAnswerError(ClientError):
    """A broker, or none of those that are known, answers."""

    exit_code: ClassVar[ExitCode] = ExitCode.NO_CLUSTER


class SilentError(NoAnswerError):
    """A broker did not answer in time; it may be frozen."""


class UnreachableError(NoAnswerError):
    """A broker cannot be reached or closed the connection; it may be restarting."""


class AdminConnection:
    """One connection to one broker; its errors are :class:`ClientError`."""

    def __init__(
        self, address: Address, timeout_s: float, client_id: str, security: Security = PLAINTEXT
    ) -> None:
        self._address = address
        self._has_answered = False
        self._is_plaintext = security == PLAINTEXT
        try:
            self._connection = BlockingConnection(address, timeout_s, client_id, security=security)
        except OSError as error:
            raise UnreachableError(f"{shown(address)} cannot be reached: {error}") from None
        except (LoginError, BadFrame, FrameError) as error:
            raise ClientError(f"{shown(address)}: {error}") from None

    def ask(self, message: Any) -> Any:
        """Send a request and return its response."""
        at = shown(self._address)
        try:
            answer = self._connection.ask(message)
        except BrokerApiNotServedError as error:
            raise ApiNotServedError(f"{at} does not serve {API[error.api_key].name}") from None
        except TimeoutError:
            raise SilentError(f"{at} did not answer in time") from None
        except ConnectionError as error:
            raise UnreachableError(f"{at}: {error}{self._guess()}") from None
        except OSError as error:
            raise UnreachableError(f"{at}: {error}") from None
        except (BadFrame, FrameError) as error:
            raise ClientError(f"{at}: {error}{self._guess()}") from None
        self._has_answered = True
        return answer

    def _guess(self) -> str:
        """Say what may be wrong with a server that never answered in plaintext."""
        if self._has_answered or not self._is_plaintext:
            return ""
        return "; it may want TLS or a login (security.protocol)"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class AdminClient:
    """Sends requests to a cluster; ``bootstrap`` are some of its brokers."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        timeout_s: float = TIMEOUT_S,
        client_id: str = CLIENT_ID,
        security: Security = PLAINTEXT,
    ) -> None:
        self._security = security
        self._bootstrap = list(bootstrap)
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._connections: dict[Address, AdminConnection] = {}
        self._coordinators: OrderedDict[str, Address] = OrderedDict()

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def nearest(self) -> Address:
        """The broker that is asked first: the first of those given that could be reached."""
        return self._bootstrap[0]

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def ask(self, message: Entity) -> Any:
        """Send a request to the first broker that can be reached, the next time to that one first.

        A question that changes nothing goes on to the next broker if one does not answer.
        """
        moves_on = (
            (UnreachableError, SilentError) if type(message) in QUESTIONS else UnreachableError
        )
        failed: list[str] = []
        for address in tuple(self._bootstrap):
            try:
                return self.ask_at(address, message)
            except moves_on as error:
                failed.append(str(error))
                self._bootstrap.remove(address)
                self._bootstrap.append(address)
        raise NoAnswerError("; ".join(failed))

    def ask_at(self, address: Address, message: Entity) -> Any:
        """Send a request to one broker; a failed connection is reopened on the next request."""
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = AdminConnection(
                address, self._timeout_s, self._client_id, self._security
            )
        try:
            return connection.ask(message)
        except ClientError:
            self._connections.pop(address).close()
            raise

    def metadata(self, topics: Sequence[str] | None = ()) -> Any:
        """Return the brokers and these topics (None: all topics); never creates a topic."""
        named = None
        if topics is not None:
            named = tuple(MetadataRequestTopic(topic_id=None, name=name) for name in topics)
        return self.ask(
            MetadataRequest(
                topics=named,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
        )

    def brokers(self) -> dict[int, Address]:
        """Return the address of every broker by its node id."""
        return {each.node_id: (each.host, each.port) for each in self.metadata().brokers}

    def coordinator(self, group_id: str, key_type: int = GROUP_KEY) -> tuple[int, Address]:
        """Find the group's coordinator; waits while it is starting."""
        found = self._until_settled(
            lambda: self.ask(
                FindCoordinatorRequest(key_type=key_type, coordinator_keys=(group_id,))
            ),
            lambda answer: [answer.coordinators[0].error_code],
        ).coordinators[0]
        if found.error_code is not ErrorCode.none:
            said = found.error_message or named(found.error_code)
            raise ClientError(f"group {group_id} has no coordinator: {said}")
        return found.node_id, (found.host, found.port)

    def ask_coordinator(
        self, group_id: str, message: Entity, codes: Callable[[Any], Iterable[int]]
    ) -> Any:
        """Send a request to the group's coordinator; ``codes`` returns a response's error codes.

        The coordinator is remembered until it fails, or says that it is not the coordinator.
        """

        def ask() -> Any:
            address = self.remembered_coordinator(group_id)
            del self._coordinators[group_id]  # until it has answered as the coordinator
            answer = self.ask_at(address, message)
            if not MOVING.intersection(codes(answer)):
                self._coordinators[group_id] = address
            return answer

        return self._until_settled(ask, codes)

    def remembered_coordinator(self, group_id: str) -> Address:
        """Return where the group's coordinator was last; find it if that is not known."""
        address = self._coordinators.get(group_id)
        if address is None:
            _, address = self.coordinator(group_id)
            self._coordinators[group_id] = address
            if len(self._coordinators) > COORDINATORS_MAX:
                self._coordinators.popitem(last=False)
        return address

    def ask_every(self, message: Entity, codes: Callable[[Any], Iterable[int]]) -> list[Any]:
        """Send the same request to every broker."""

        def at(address: Address) -> Any:
            return self._until_settled(lambda: self.ask_at(address, message), codes)

        return [at(address) for _, address in sorted(self.brokers().items())]

    def _until_settled(self, ask: Callable[[], Any], codes: Callable[[Any], Iterable[int]]) -> Any:
        """Retry while a coordinator moves or restarts, until the timeout."""
        return poll(
            ask,
            self._timeout_s,
            is_done=lambda answer: not MOVING.intersection(codes(answer)),
            every_s=BACKOFF_S,
            retry=(UnreachableError,),
        )


def parse_bootstrap(text: str) -> list[Address]:
    """Read ``HOST:PORT[,HOST:PORT...]``; raises ValueError with a sentence."""
    addresses = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = each.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{each!r} is not a bootstrap server: give HOST:PORT")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no bootstrap server is given: give HOST:PORT")
    return addresses


def shown(address: Address) -> str:
    """Return an address as ``host:port``; an IPv6 address is in brackets."""
    return host_and_port(*address)


def named(code: int) -> str:
    """Return Kafka's name of an error code."""
    return ErrorCode(code).name.upper()
