"""What every handler gets as its first argument: the shard's state and its way out.

Hard state is what replay builds from the log, the same on the leader and on every standby. Soft
state exists on the leader alone and is lost at failover. ``emit`` is the only way a handler changes
hard state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from protocol.groups.effects import Reply, Result
from protocol.groups.timers import Timers

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity

    from protocol.config import Configs
    from protocol.groups.effects import HeartbeatLease, Ticket
    from protocol.groups.facts import Fact
    from protocol.groups.group import ClassicGroup, Group
    from protocol.groups.topics import Topics
    from protocol.records import OffsetCommitValue, Record

    Replay: TypeAlias = Callable[["Context", Entity, Entity | None], None]


class Context:
    """The state of one shard while it handles one event.

    Hard, written by replays only: ``groups`` (classic groups by id) and ``offsets`` (committed
    offsets by group id, topic and partition). Soft: ``live`` (groups in use, by id),
    ``timers``, ``elected_ms`` (when this shard's leadership began; None on a standby) and
    ``unbuilt`` (ids of groups that may still lack soft state after an election, last one first).
    """

    __slots__ = (
        "configs",
        "elected_ms",
        "groups",
        "live",
        "offsets",
        "replays",
        "result",
        "rng",
        "timers",
        "topics",
        "unbuilt",
    )

    def __init__(
        self,
        configs: Configs,
        topics: Topics,
        rng: random.Random,
        replays: Mapping[type, Replay],
    ) -> None:
        self.configs = configs
        self.topics = topics
        self.rng = rng
        self.replays = replays
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets: dict[str, dict[str, dict[int, OffsetCommitValue]]] = {}
        self.live: dict[str, Group] = {}
        self.timers = Timers()
        self.elected_ms: int | None = None
        self.unbuilt: list[str] = []
        self.result = Result()

    def replay(self, record: Record) -> None:
        """Apply a record to the hard state: the only place it is written."""
        self.replays[type(record.key)](self, record.key, record.value)

    def emit(self, record: Record) -> None:
        """Apply a record here and hand it to the log."""
        self.replay(record)
        self.result.records.append(record)

    def reply(
        self,
        ticket: Ticket,
        message: Entity,
        group_id: str | None,
        lease: HeartbeatLease | None = None,
    ) -> None:
        """Answer a ticket once everything emitted so far for the group is committed."""
        self.result.replies.append(Reply(ticket, message, group_id, lease))

    def fact(self, fact: Fact) -> None:
        """Tell people what happened."""
        self.result.facts.append(fact)
