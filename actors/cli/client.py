"""A small blocking Kafka client for administration: ask a broker, a coordinator, every broker.

Requests and answers are in the newest shape of their API, whatever version the broker speaks.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from actors.client.blocking import BlockingConnection
from actors.errors import FailureError
from protocol.client.connection import NotServedError as BrokerApiNotServedError
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

Address = tuple[str, int]

CLIENT_ID: Final = "rollcall-admin"
TIMEOUT_S: Final = 15.0
BACKOFF_S: Final = 0.1

MOVING: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""Errors that end by themselves while a coordinator starts or changes."""


class ClientError(FailureError):
    """What was asked for could not be done; ``str(error)`` is one sentence for the operator."""


class ApiNotServedError(ClientError):
    """A broker does not serve an API, in no version that is known here."""


class UnreachableError(ClientError):
    """A broker cannot be reached, or went away before it answered: it may be restarting."""


class AdminConnection:
    """One connection to one broker, whose failures are sentences."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address = address
        try:
            self._connection = BlockingConnection(address, timeout_s, CLIENT_ID)
        except OSError as error:
            raise UnreachableError(f"{shown(address)} cannot be reached: {error}") from None

    def ask(self, message: Any) -> Any:
        """Send a request and wait for its answer."""
        at = shown(self._address)
        try:
            return self._connection.ask(message)
        except BrokerApiNotServedError as error:
            raise ApiNotServedError(f"{at} does not serve {API[error.api_key].name}") from None
        except TimeoutError:
            raise ClientError(f"{at} did not answer in time") from None
        except OSError as error:
            raise UnreachableError(f"{at}: {error}") from None
        except (BadFrame, FrameError) as error:
            raise ClientError(f"{at}: {error}") from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class AdminClient:
    """Talks to a cluster through any of its ``bootstrap`` addresses."""

    def __init__(self, bootstrap: Sequence[Address], timeout_s: float = TIMEOUT_S) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._connections: dict[Address, AdminConnection] = {}

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def ask(self, message: Entity) -> Any:
        """Ask the first broker that can be reached."""
        failed: list[str] = []
        for address in self._bootstrap:
            try:
                return self.ask_at(address, message)
            except UnreachableError as error:
                failed.append(str(error))
        raise ClientError("; ".join(failed))

    def ask_at(self, address: Address, message: Entity) -> Any:
        """Ask one broker; a connection that failed is opened anew the next time."""
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = AdminConnection(address, self._timeout_s)
        try:
            return connection.ask(message)
        except ClientError:
            self._connections.pop(address).close()
            raise

    def metadata(self, topics: Sequence[str] | None = ()) -> Any:
        """Ask for the brokers and these topics (None: all); never creates one."""
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
        """Find every broker by its node id."""
        return {each.node_id: (each.host, each.port) for each in self.metadata().brokers}

    def coordinator(self, group_id: str) -> tuple[int, Address]:
        """Find who coordinates the group; waits for one that is starting."""
        found = self._until_settled(
            lambda: self.ask(FindCoordinatorRequest(coordinator_keys=(group_id,))),
            lambda answer: [answer.coordinators[0].error_code],
        ).coordinators[0]
        if found.error_code is not ErrorCode.none:
            said = found.error_message or named(found.error_code)
            raise ClientError(f"group {group_id} has no coordinator: {said}")
        return found.node_id, (found.host, found.port)

    def ask_coordinator(
        self, group_id: str, message: Entity, codes: Callable[[Any], Iterable[int]]
    ) -> Any:
        """Ask the group's coordinator; ``codes`` finds the error codes in the answer."""
        return self._until_settled(
            lambda: self.ask_at(self.coordinator(group_id)[1], message), codes
        )

    def ask_every(self, message: Entity, codes: Callable[[Any], Iterable[int]]) -> list[Any]:
        """Ask every broker the same."""

        def at(address: Address) -> Any:
            return self._until_settled(lambda: self.ask_at(address, message), codes)

        return [at(address) for _, address in sorted(self.brokers().items())]

    def _until_settled(self, ask: Callable[[], Any], codes: Callable[[Any], Iterable[int]]) -> Any:
        """Ask again while a coordinator is moving or restarting, until time is up."""
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            is_last = time.monotonic() > deadline_s
            try:
                answer = ask()
            except UnreachableError:
                if is_last:
                    raise
            else:
                if is_last or not MOVING.intersection(codes(answer)):
                    return answer
            time.sleep(BACKOFF_S)


def parse_bootstrap(text: str) -> list[Address]:
    """Read ``HOST:PORT[,HOST:PORT...]``; raises ValueError with a sentence."""
    addresses = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = each.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{each!r} is not a bootstrap server: HOST:PORT is wanted")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no bootstrap server is given: HOST:PORT is wanted")
    return addresses


def shown(address: Address) -> str:
    """Write an address as ``host:port``."""
    return f"{address[0]}:{address[1]}"


def named(code: int) -> str:
    """Give Kafka's name of an error code."""
    return ErrorCode(code).name.upper()
