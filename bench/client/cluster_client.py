"""What a client asks a whole cluster, whichever of its nodes answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.waiting import is_answered, poll
from bench.client.blocking_client import BlockingClient
from bench.client.connection_settings import DEFAULT
from failover.drills.checked import DrillError
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from uuid import UUID

    from bench.client.connection_settings import ConnectionSettings

POLL_S: Final = 0.1
ASK_S: Final = 10.0
COME_BACK_S: Final = 30.0
"""How long after the load a coordinator may still be unavailable."""

Address = tuple[str, int]


def addresses_in(bootstrap: str) -> list[Address]:
    """Return the addresses of a bootstrap string, in its order."""
    split = (text.rpartition(":") for text in bootstrap.split(","))
    return [(host.strip("[]"), int(port)) for host, _, port in split]


class ClusterClient:
    """A cluster by its bootstrap addresses; node *i* has the *i*-th.

    ``settings`` are those of its connections.
    """

    def __init__(
        self, bootstrap: Sequence[Address], settings: ConnectionSettings = DEFAULT
    ) -> None:
        self.bootstrap = tuple(bootstrap)
        self._settings = settings
        self._silent: Collection[str] = ()

    @property
    def nodes(self) -> tuple[int, ...]:
        """Every node's id."""
        return tuple(range(len(self.bootstrap)))

    def avoid(self, hosts: Collection[str]) -> None:
        """Ask no nodes on these hosts: they would not answer."""
        self._silent = hosts

    def ask(self, question: Callable[[BlockingClient], Any]) -> Any:
        """Ask nodes until one answers; if none does, raise the last error."""
        error: Exception = DrillError("The cluster has no address.")
        for address in self.bootstrap:
            if address[0] in self._silent:
                continue
            try:
                with BlockingClient(address, ASK_S, self._settings) as connection:
                    return question(connection)
            except (OSError, KafkaError) as raised:
                error = raised
        raise error

    def coordinator(self, group_id: str) -> Address:
        """Return the coordinator of a group."""
        at: Address = self.ask(lambda connection: connection.coordinator(group_id))
        return at

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, unless it exists."""
        self.ask(lambda connection: connection.create_topic(name, partitions))

    def topic_names(self, names: Sequence[str]) -> dict[UUID, str]:
        """Return the names of these topic ids, once all of them are known."""
        ids = poll(
            lambda: self.ask(lambda connection: connection.topic_ids(names)),
            COME_BACK_S,
            is_done=lambda ids: len(ids) == len(names),
            every_s=POLL_S,
        )
        if len(ids) != len(names):
            raise DrillError(f"Topic {(set(names) - set(ids)).pop()} is not there.")
        return {topic_id: name for name, topic_id in ids.items()}

    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return a group's committed offsets, once its coordinator can return them."""

        def look() -> dict[tuple[str, int], int]:
            at = self.coordinator(group_id)
            with BlockingClient(at, ASK_S, self._settings) as connection:
                return connection.committed_offsets(group_id)

        failures = (OSError, KafkaError)
        return poll(look, COME_BACK_S, is_done=is_answered, every_s=POLL_S, retry=failures)

    def wait(self, until: Callable[[], object], within_ms: int, what: object) -> None:
        """Wait until a condition holds; raise a one-sentence error when it takes too long."""
        if not poll(until, within_ms / 1000, every_s=POLL_S):
            raise DrillError(f"It was not {what} within {within_ms / 1000:g} s.")
