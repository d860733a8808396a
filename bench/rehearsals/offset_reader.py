"""Reads committed offsets beside the members of a real run, in a thread with its own client.

While nobody leads a group, or its coordinator does not answer, there is no read of it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Protocol, Self

from bench.client.blocking_client import BlockingClient
from bench.load.driver import now_ms
from bench.scenarios.reads import KeptReads, OffsetsRead, ReadTurns
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bench.client.cluster_client import Address
    from bench.client.connection_settings import ConnectionSettings
    from bench.rehearsals.stages import CrowdCluster
    from bench.scenarios.scenario import Scenario
    from protocol.wire.embedded import TopicPartition

READ_S: Final = 2.0
"""How long a node may take to answer."""


class OffsetReader:
    """Reads inside a ``with`` block, or until :meth:`end` is called in it."""

    def __init__(self, scenario: Scenario, stage: CrowdCluster, client: ReadingClient) -> None:
        self.kept = KeptReads()
        self._stage = stage
        self._client = client
        self._turns = ReadTurns(scenario)
        self._began_s = time.monotonic()
        self._lock = threading.Lock()  # of the turns
        self._wakes = threading.Event()
        self._is_over = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="offset reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def end(self) -> None:
        """Read no more, and raise what went wrong."""
        self._is_over = True
        self._wakes.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def hurry(self) -> None:
        """Read at once: there was a fault."""
        with self._lock:
            self._turns.hurry(self._now_ms())
        self._wakes.set()

    def _now_ms(self) -> int:
        return int((time.monotonic() - self._began_s) * 1000)

    def _run(self) -> None:
        try:
            with self._client:
                while not self._is_over and not self.kept.are_full:
                    self._wakes.clear()
                    self._turn()
        except Exception as error:
            self._failure = error

    def _turn(self) -> None:
        """Read a group if it is its turn, or wait for that."""
        with self._lock:
            now = self._now_ms()
            wait_ms = self._turns.wait_ms(now)
            group = self._turns.take(now) if wait_ms == 0 else None
        if self._is_over:
            return
        if group is None:
            self._wakes.wait(None if wait_ms is None else wait_ms / 1000)
            return
        names, asked_ms = self._stage.names, now_ms()
        offsets = self._client.read(names.of(group))
        if offsets is not None:
            named = dict(zip(names.back(offsets), offsets.values(), strict=True))
            self.kept.add(OffsetsRead(group, asked_ms, now_ms(), named))


class ReadingClient(Protocol):
    """Reads committed offsets inside a ``with`` block."""

    def __enter__(self) -> object:
        """Get ready."""

    def __exit__(self, *_error: object) -> None:
        """Close what is open."""

    def read(self, group_id: str) -> Mapping[TopicPartition, int] | None:
        """Return the committed offsets of a group; None: nobody returned them."""


class GroupOffsets:
    """A client that asks the coordinators of groups, one connection each, and gives up soon."""

    def __init__(self, bootstrap: Iterable[Address], settings: ConnectionSettings) -> None:
        self._bootstrap = tuple(bootstrap)
        self._settings = settings
        self._coordinators: dict[str, Address] = {}
        self._connections: dict[Address, BlockingClient] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for address in tuple(self._connections):
            self._close(address)

    def read(self, group_id: str) -> dict[TopicPartition, int] | None:
        """Return the committed offsets of a group; None: nobody returned them."""
        at = self._coordinator(group_id)
        if at is None:
            return None
        try:
            return self._connection(at).committed_offsets(group_id)
        except KafkaError:
            del self._coordinators[group_id]  # another node leads it, or will soon
        except OSError:
            self._close(at)
            del self._coordinators[group_id]
        return None

    def _coordinator(self, group_id: str) -> Address | None:
        """Return the coordinator of a group; ask a node that is connected first."""
        if group_id in self._coordinators:
            return self._coordinators[group_id]
        for address in dict.fromkeys((*self._connections, *self._bootstrap)):
            try:
                found = self._connection(address).coordinator(group_id, within_s=0)
            except OSError:
                self._close(address)
            except KafkaError:
                return None
            else:
                return self._coordinators.setdefault(group_id, found)
        return None

    def _connection(self, address: Address) -> BlockingClient:
        if address not in self._connections:
            self._connections[address] = BlockingClient(address, READ_S, self._settings)
        return self._connections[address]

    def _close(self, address: Address) -> None:
        if (connection := self._connections.pop(address, None)) is not None:
            connection.close()
