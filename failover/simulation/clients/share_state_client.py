"""A client of the share coordinator that uses epochs as partition leaders do (KIP-932).

It has share state of its own, for a group that never has members: so every change of it is known.
Each start offset is written once, so an answer says by which write it was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from failover.partition_kinds import SHARE_STATE as SHARE_STATE_KIND
from failover.simulation.clients.administrator import AdminCall
from failover.simulation.kinds import SHARE, SHARE_STATE
from protocol.groups.share_state.keys import SharePartition, partition_of
from protocol.wire import apis
from protocol.wire.convert import blank

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from kio.static.protocol import Entity

    from failover.simulation.nodes.network import Network
    from failover.simulation.nodes.process import Process
    from failover.simulation.world import World

TOPIC: Final = f"{SHARE}0"
"""A topic that is never deleted."""

PARTITIONS: Final = 2
EVERY_MS: Final = 1_200
INITIALIZE, READ, WRITE, _, SUMMARIZE = range(83, 88)
KEYS: Final = (INITIALIZE, *(READ,) * 3, *(WRITE,) * 6, *(SUMMARIZE,) * 2)
DELIVERED: Final = 2
"""The delivery state of acknowledged records."""


class ShareStateClient:
    """Sends random requests, of which some have outdated epochs, while ``is_on()``."""

    def __init__(
        self,
        world: World,
        network: Network,
        topic_id: Callable[[str], UUID | None],
        is_on: Callable[[], bool],
    ) -> None:
        self._world = world
        self._network = network
        self._topic_id = topic_id
        self._is_on = is_on
        self._rng = world.random("share state")
        self._last_offset = 0
        self._state_epochs: dict[tuple[str, int], int] = {}
        self._leader_epochs: dict[tuple[str, int], int] = {}

    def begin(self) -> None:
        """Send the first request soon, and one more after each."""
        self._world.after(int(self._rng.random() * 2 * EVERY_MS), self._call)

    def _call(self) -> None:
        self._world.after(int(self._rng.random() * 2 * EVERY_MS), self._call)
        rng = self._rng
        key = rng.choice(KEYS)
        at = (rng.choice(SHARE_STATE), rng.randrange(PARTITIONS))
        topic_id = self._topic_id(TOPIC)
        if topic_id is None or not self._is_on():
            return
        if at not in self._state_epochs:
            key = INITIALIZE
        self._send(key, topic_id, at, **getattr(self, f"_{NAMES[key]}")(at))

    # --- the fields of each request

    def _initialize(self, at: tuple[str, int]) -> dict[str, Any]:
        epoch = self._state_epochs.get(at, -1) + self._rng.choice((1, 1, 1, 0, -1))
        self._state_epochs[at] = max(epoch, self._state_epochs.get(at, 0), 0)
        self._leader_epochs[at] = 0
        return {"state_epoch": max(epoch, 0), "start_offset": self._offset()}

    def _write(self, at: tuple[str, int]) -> dict[str, Any]:
        is_old = self._rng.random() < 0.1
        return {
            "state_epoch": max(self._state_epochs[at] - is_old, 0),
            "leader_epoch": self._leader_epoch(at),
            "start_offset": self._offset(),
            "delivery_complete_count": 0,
        }

    def _read(self, at: tuple[str, int]) -> dict[str, Any]:
        if self._rng.random() < 0.3:
            self._leader_epochs[at] = self._leader_epochs.get(at, 0) + 1
        return {"leader_epoch": self._leader_epoch(at)}

    def _summarize(self, at: tuple[str, int]) -> dict[str, Any]:
        return {"leader_epoch": self._leader_epoch(at)}

    def _leader_epoch(self, at: tuple[str, int]) -> int:
        return max(self._leader_epochs.get(at, 0) - (self._rng.random() < 0.1), 0)

    def _offset(self) -> int:
        self._last_offset += 10
        return self._last_offset

    def _send(self, key: int, topic_id: UUID, at: tuple[str, int], **fields: Any) -> None:
        group_id, partition = at
        request: Any = apis.API[key].request
        topic = _element(request, "topics")
        row = blank(_element(topic, "partitions"), partition=partition, **fields)
        message: Entity = request(
            group_id=group_id, topics=(blank(topic, topic_id=topic_id, partitions=(row,)),)
        )
        node_id = self._rng.randrange(len(self._network.processes))
        if self._rng.random() < 0.9:
            share = SharePartition(group_id, topic_id, partition)
            node_id = _coordinator_known(self._network.processes[node_id], share)
        AdminCall(self._world, self._network, node_id, _ignore).send(message)


NAMES: Final = {INITIALIZE: "initialize", READ: "read", WRITE: "write", SUMMARIZE: "summarize"}


def _coordinator_known(process: Process, share: SharePartition) -> int:
    """Return the node that a process believes to lead some share state, itself if it knows none."""
    number = SHARE_STATE_KIND.number(partition_of(share, process.identity.partitions))
    leaders = {} if process.host is None else process.host.view.leaders
    return leaders.get(number, process.node_id)


def _ignore(_response: Any) -> None:
    """Leave the answer to the checker."""


def _element(kind: Any, name: str) -> Any:
    """Return the class of the elements of an array."""
    field: Any = kind.__dataclass_fields__[name].type
    return field.__args__[0]
