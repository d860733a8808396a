"""Every partition of one process behind one door: events in, :class:`Effects` out.

The driver's loop (the actor's ``pump`` and the simulator are the only two) is::

    while effects := host.drain(now):
        log.write(effects.writes, effects.sync)     # raises: stop answering, the process restarts
        host.persisted(now)
        ...publish, forward, send replies, observe facts, log notes...
    arm one timer for host.next_deadline()

``now`` is Unix time in milliseconds everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from failover.cluster_view import ClusterView
    from failover.effects import Effects
    from kio.static.protocol import Entity
    from protocol.config import Configs
    from protocol.groups.effects import Request, Ticket
    from protocol.groups.facts import MemberEvent
    from storage.log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this process is in its cluster.

    ``partitions`` counts the cluster's ``__consumer_offsets`` partitions; ``leads`` are those this
    node is the replica of; the catalogue's log lives on ``catalog_node``.
    """

    node_id: int
    cluster_id: str
    partitions: int
    leads: tuple[int, ...]
    catalog_node: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition as ``rollcall status`` shows it; the catalogue is partition -1."""

    partition: int
    state: str  # Loading, Leader
    epoch: int
    log_start_offset: int
    applied_offset: int
    high_watermark: int
    end_offset: int


class Host:
    """All partitions of one process. Pure: no clock, no randomness of its own, no I/O but
    reading the log it was given.
    """

    def __init__(self, identity: Identity, configs: Configs, log: Log, rng: random.Random) -> None:
        raise NotImplementedError

    def receive(self, request: Request, now: int) -> None:
        """Take a client's request; its reply comes out of a later :meth:`drain`."""
        raise NotImplementedError

    def forwarded(self, ticket: Ticket, response: Entity | None) -> None:
        """Take the catalogue leader's answer to a forward; None: it could not be reached."""
        raise NotImplementedError

    def abandon(self, ticket: Ticket) -> None:
        """Forget a parked fetch whose client has gone away."""
        raise NotImplementedError

    def tick(self, now: int, stalled_ms: int = 0) -> None:
        """Run what is due; ``stalled_ms`` is how long this process itself stood still."""
        raise NotImplementedError

    def next_deadline(self) -> int | None:
        """When :meth:`tick` is wanted next, if at all."""
        raise NotImplementedError

    def drain(self, now: int) -> Effects:
        """End the turn: everything to be done now, falsy when there is nothing."""
        raise NotImplementedError

    def persisted(self, now: int) -> None:
        """Take notice that the last drained writes are in the log (synced if it said so)."""
        raise NotImplementedError

    def load_slice(self, max_records: int) -> bool:
        """Read on in the log; True when every partition is loaded. Call until then, then pump."""
        raise NotImplementedError

    def set_leaders(self, leaders: Mapping[int, int]) -> None:
        """Learn which node leads which ``__consumer_offsets`` partition (down nodes left out)."""
        raise NotImplementedError

    @property
    def view(self) -> ClusterView:
        """What this node knows of the cluster: catalogue, leaders, effective configs."""
        raise NotImplementedError

    @property
    def catalog_offset(self) -> int:
        """The offset of the next catalogue record wanted by :meth:`apply_catalog`."""
        raise NotImplementedError

    def apply_catalog(
        self, offset: int, records: Sequence[tuple[bytes, bytes | None]], now: int
    ) -> bool:
        """Apply records published by the catalogue's leader; False: a gap, ask for a snapshot."""
        raise NotImplementedError

    def catalog_snapshot(self) -> tuple[int, list[tuple[bytes, bytes | None]]]:
        """Return the committed catalogue whole, and the offset of the record after it."""
        raise NotImplementedError

    def install_catalog(
        self, offset: int, records: Sequence[tuple[bytes, bytes | None]], now: int
    ) -> None:
        """Replace the catalogue by a snapshot of the leader's."""
        raise NotImplementedError

    def status(self) -> list[PartitionStatus]:
        """Return one row per partition held here."""
        raise NotImplementedError

    def events(self, group_id: str) -> list[MemberEvent]:
        """Return the diary of a group led here, oldest first."""
        raise NotImplementedError
