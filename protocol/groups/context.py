"""The first argument of every handler: the shard's state, and its means to emit effects.

Hard state is what replay builds from the log, the same on the leader and on every standby. Soft
state exists only on the leader and is lost at failover. ``emit`` is the only way for a handler to
change hard state.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from protocol.groups.effects import GroupFailed, Reply, Result
from protocol.groups.timers import Timers
from protocol.groups.topic_numbers import TopicNumbers
from protocol.groups.wall import WallClock
from protocol.reasons import reason
from protocol.records import unused_types

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity

    from protocol.assignors.executor import Executor
    from protocol.config import Configs
    from protocol.groups.classic.group import ClassicGroupRuntime
    from protocol.groups.effects import HeartbeatLease, SessionHolder, Task, Ticket
    from protocol.groups.facts import Fact
    from protocol.groups.hard_group import HardGroup
    from protocol.groups.modern.runtime import KeptForOperators, ModernGroupRuntime
    from protocol.groups.topics import Topic, Topics
    from protocol.records import Record
    from protocol.unread import TopicOffsets

    Replay: TypeAlias = Callable[["Context", Entity, Entity | bytes | None], None]

SESSION_END: Final = attrgetter("session_deadline_ms")


@dataclass(slots=True)
class OffsetCounts:
    """How many offsets one shard committed, expired and deleted; for metrics only."""

    committed: int = 0
    expired: int = 0
    deleted: int = 0


class Context:
    """The state of one shard while it handles one event.

    Hard, written by replays only: ``groups`` (by id; an id belongs to one type of group),
    ``shadowed`` (groups whose id a group of another type has, by id and type) and ``offsets``
    (committed offsets by group id, topic and partition). Soft: ``classic_runtime`` (the
    classic groups in use, by id), ``modern_runtime`` (the modern groups in use), ``timers``,
    ``elected_ms`` (when this shard's leadership began; None on a standby), ``unbuilt`` (ids of
    groups that may still lack soft state after an election, last one first) and ``subscribers``
    (ids of consumer groups in use by topic name). ``group_configs`` are the dynamic configs of
    groups, by group id. ``topic_hashes`` are cached for the topics they were made of;
    ``rack_hashes`` (of topics with the racks of their partitions) while the racks stay the same.
    ``topics_version`` counts the topics images that had new topics. ``emitted`` holds what the
    value of the record that is emitted stands for (a member's assignment, a group's share state),
    with that value, so that its replay need not decode it. ``executor`` runs assignors in place; it
    is set at the first such run. ``last_run`` is the number of the last run of any group.
    ``share_calls`` are the requests to share
    coordinators that are not answered yet, by number; ``last_share_call`` is the newest.
    ``offset_counts`` are for metrics. ``failures`` are groups to rebuild from the log, by group id;
    they are not served until then.
    ``kept_for_operators`` are of groups between ``forget`` and ``restored``.
    ``unused_record_types`` are the first bytes of keys that have no replay. ``session_end`` reads
    when a session ends (ms): the heartbeat path moves it without a call. ``wall`` is the clock for
    timestamps in records. ``tables`` are those of ``dispatch``; ``group_type`` looks up a group's
    type in them.
    """

    __slots__ = (
        "classic_runtime",
        "configs",
        "elected_ms",
        "emitted",
        "executor",
        "failures",
        "group_configs",
        "groups",
        "kept_for_operators",
        "last_run",
        "last_share_call",
        "modern_runtime",
        "numbers",
        "offset_counts",
        "offsets",
        "rack_hashes",
        "replays",
        "result",
        "rng",
        "session_end",
        "shadowed",
        "share_calls",
        "subscribers",
        "tables",
        "timers",
        "topic_hashes",
        "topics",
        "topics_version",
        "unbuilt",
        "unused_record_types",
        "wall",
    )

    def __init__(
        self,
        configs: Configs,
        topics: Topics,
        rng: random.Random,
        tables: Any,
    ) -> None:
        self.configs = configs
        self.topics = topics
        self.rng = rng
        self.tables = tables
        self.replays: Mapping[type, Replay] = tables.replays
        self.unused_record_types = unused_types(tables.replays)
        self.wall = WallClock()
        self.group_configs: Mapping[str, Mapping[str, str]] = {}
        self.groups: dict[str, HardGroup] = {}
        self.kept_for_operators: dict[str, KeptForOperators] = {}
        self.shadowed: dict[str, dict[str, HardGroup]] = {}
        self.offsets: dict[str, dict[str, TopicOffsets]] = {}
        self.offset_counts = OffsetCounts()
        self.numbers = TopicNumbers()
        self.classic_runtime: dict[str, ClassicGroupRuntime] = {}
        self.modern_runtime: dict[str, ModernGroupRuntime] = {}
        self.subscribers: dict[str, set[str]] = {}
        self.topic_hashes: dict[str, tuple[Topic, int]] = {}
        self.rack_hashes: dict[str, tuple[Topic, int]] = {}
        self.topics_version = 0
        self.emitted: tuple[Entity | bytes, Any] | None = None
        self.executor: Executor | None = None
        self.last_run = rng.getrandbits(40)  # a late answer to an earlier shard will not match
        self.timers = Timers()
        self.elected_ms: int | None = None
        self.unbuilt: list[str] = []
        self.result = Result()
        self.share_calls: dict[int, tuple[str, Any]] = {}
        self.last_share_call = 0
        self.failures: dict[str, GroupFailed] = {}
        self.session_end: Callable[[SessionHolder], int] = SESSION_END

    def silent_ms(self, session: SessionHolder, now: int) -> int:
        """Return how long ago the last heartbeat of a member was, by the end of its session."""
        return max(now - self.session_end(session) + session.session_timeout_ms, 0)

    def replay(self, record: Record) -> None:
        """Apply a record to the hard state, which is written nowhere else."""
        self.replays[type(record.key)](self, record.key, record.value)

    def emit(self, record: Record) -> None:
        """Apply a record here and add it to the log."""
        self.replay(record)
        self.result.records.append(record)

    def contain(
        self, group_id: str, what: str, action: Callable[..., object], *arguments: object
    ) -> bool:
        """Run an action for one group and contain its exception. Return whether it succeeded.

        Use it where one event handles many groups. If the action raises, its effects are discarded.
        """
        if group_id in self.failures:
            return False
        result = self.result
        parts: tuple[list[Any], ...] = (
            result.records,
            result.replies,
            result.facts,
            result.tasks,
        )
        marks = [len(part) for part in parts]
        try:
            action(*arguments)
        except Exception as error:
            for part, mark in zip(parts, marks, strict=True):
                del part[mark:]
            self.failures[group_id] = GroupFailed(group_id, what, reason(error))
            return False
        return True

    def reply(
        self,
        ticket: Ticket,
        message: Entity,
        group_id: str | None,
        lease: HeartbeatLease | None = None,
    ) -> None:
        """Answer a ticket once everything emitted so far for the group is committed."""
        self.result.replies.append(Reply(ticket, message, group_id, lease))

    def submit(self, task: Task) -> None:
        """Submit work to be done elsewhere; its result comes back as an event."""
        self.result.tasks.append(task)

    def fact(self, fact: Fact) -> None:
        """Report what happened, for the operators."""
        self.result.facts.append(fact)
