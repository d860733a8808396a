"""A small blocking Kafka client for administration: ask a broker, a coordinator, every broker.

Requests and answers are in the newest shape of their API, whatever version the broker speaks.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any, Final

from actors.errors import FailureError
from protocol.wire.apis import API
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import (
    API_VERSIONS,
    BadFrame,
    FrameBuffer,
    FrameError,
    decode_response,
    encode_request,
)
from protocol.wire.messages import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from kio.static.protocol import Entity

Address = tuple[str, int]

CLIENT_ID: Final = "rollcall-admin"
RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
TIMEOUT_S: Final = 15.0
BACKOFF_S: Final = 0.1
VERSION_CAPS: Final[Mapping[int, int]] = {8: 9, 9: 9}
"""OffsetCommit and OffsetFetch name topics by their ids after 9; an operator names them by name."""

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


class NotServedError(ClientError):
    """A broker does not serve an API, in no version that is known here."""


class UnreachableError(ClientError):
    """A broker cannot be reached, or went away before it answered: it may be restarting."""


class Connection:
    """One connection to one broker; versions are agreed on when it opens."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address = address
        self._correlation_id = 0
        self._frames = FrameBuffer(RESPONSE_BYTES_MAX)
        try:
            self._socket = socket.create_connection(address, timeout_s)
        except OSError as error:
            raise UnreachableError(f"{shown(address)} cannot be reached: {error}") from None
        try:
            self._versions = self._agree()
        except BaseException:
            self._socket.close()
            raise

    def ask(self, message: Entity) -> Any:
        """Send a request and wait for its answer."""
        key: int = message.__api_key__  # type: ignore[attr-defined]  # every payload has one
        if key not in self._versions:
            raise NotServedError(f"{shown(self._address)} does not serve {API[key].name}")
        return self._exchange(key, self._versions[key], message)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _agree(self) -> dict[int, int]:
        """Choose for each API the newest version that both sides know."""
        request = ApiVersionsRequest(client_software_name="rollcall", client_software_version="1")
        newest = API[API_VERSIONS].max_version
        answer = self._exchange(API_VERSIONS, newest, request)
        if answer.error_code is ErrorCode.unsupported_version:
            answer = self._exchange(API_VERSIONS, 0, request)
        versions = {}
        for theirs in answer.api_keys:
            ours = API.get(theirs.api_key)
            if ours is None:
                continue
            best = min(theirs.max_version, ours.max_version, VERSION_CAPS.get(ours.key, 99))
            if best >= max(theirs.min_version, ours.min_version):
                versions[ours.key] = best
        return versions

    def _exchange(self, key: int, version: int, message: Entity) -> Any:
        self._correlation_id += 1
        try:
            self._socket.sendall(
                encode_request(key, version, self._correlation_id, CLIENT_ID, message)
            )
            correlation_id, answer = decode_response(key, version, self._frame())
        except TimeoutError:
            raise ClientError(f"{shown(self._address)} did not answer in time") from None
        except OSError as error:
            raise UnreachableError(f"{shown(self._address)}: {error}") from None
        except (BadFrame, FrameError) as error:
            raise ClientError(f"{shown(self._address)}: {error}") from None
        if correlation_id != self._correlation_id:
            raise ClientError(f"{shown(self._address)} answered another request than ours")
        return answer

    def _frame(self) -> bytes:
        while True:
            received = self._socket.recv(65536)
            if not received:
                raise ConnectionError("the connection was closed before an answer came")
            if frames := self._frames.feed(received):
                return frames[0]


class Client:
    """Talks to a cluster through any of its ``bootstrap`` addresses."""

    def __init__(self, bootstrap: Sequence[Address], timeout_s: float = TIMEOUT_S) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._connections: dict[Address, Connection] = {}

    def __enter__(self) -> Client:
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
            connection = self._connections[address] = Connection(address, self._timeout_s)
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
