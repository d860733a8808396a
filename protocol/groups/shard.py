"""The entry point to a partition's groups: takes events and records, returns results.

This module only dispatches. The tables that it merges say how each request, timer and record is
handled.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from protocol.groups import group_types, loading, restoring
from protocol.groups.context import Context, OffsetCounts
from protocol.groups.dispatch import reactions
from protocol.groups.effects import Request, Result
from protocol.groups.group_type import SESSIONS_MAX, GroupLook, type_of
from protocol.wire.apis import error_response
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from protocol.config import Configs
    from protocol.groups.awaiting import Awaiting
    from protocol.groups.dispatch import Tables
    from protocol.groups.effects import Event, GroupFailed, SessionHolder
    from protocol.groups.facts import MemberEvent
    from protocol.groups.group_type import GroupSummary
    from protocol.groups.topics import Topics
    from protocol.groups.wall import WallClock
    from protocol.records import Record


class GroupShard:
    """The groups and committed offsets of one ``__consumer_offsets`` partition.

    A standby calls ``replay`` only; a leader calls ``handle``, with ``Elected`` first.
    ``configs`` and ``topics`` are immutable images that the owner replaces when they change.
    """

    __slots__ = ("_context", "_tables")

    def __init__(
        self, configs: Configs, topics: Topics, rng: random.Random, tables: Tables | None = None
    ) -> None:
        """Serve the group types of ``tables``; None: all group types."""
        if tables is None:
            tables = group_types.TABLES
        self._tables = tables
        self._context = Context(configs, topics, rng, tables)

    @property
    def configs(self) -> Configs:
        """The broker configs in force."""
        return self._context.configs

    @configs.setter
    def configs(self, configs: Configs) -> None:
        ctx = self._context
        if configs != ctx.configs:
            before, ctx.configs = ctx.configs, configs
            for react in reactions(self._tables, "configs_changed"):
                react(ctx, before)

    @property
    def topics(self) -> Topics:
        """The topics that currently exist."""
        return self._context.topics

    @topics.setter
    def topics(self, topics: Topics) -> None:
        ctx, before = self._context, self._context.topics
        ctx.topics = topics
        for react in reactions(self._tables, "topics_changed"):
            react(ctx, before)

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The dynamic configs of groups, by group id."""
        return self._context.group_configs

    @group_configs.setter
    def group_configs(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        ctx, before = self._context, self._context.group_configs
        ctx.group_configs = configs
        both = dict.fromkeys((*before, *configs))
        changed = [each for each in both if before.get(each) != configs.get(each)]
        for react in reactions(self._tables, "group_configs_changed"):
            react(ctx, changed)

    @property
    def wall(self) -> WallClock:
        """The clock for timestamps in records."""
        return self._context.wall

    @wall.setter
    def wall(self, wall: WallClock) -> None:
        self._context.wall = wall

    def take_offset_counts(self) -> OffsetCounts:
        """Return how many offsets were committed, expired and deleted since the last call."""
        ctx = self._context
        taken, ctx.offset_counts = ctx.offset_counts, OffsetCounts()
        return taken

    @property
    def has_groups(self) -> bool:
        """Whether any group or offset exists, of any type and in any state."""
        ctx = self._context
        has_groups = ctx.groups or ctx.classic_runtime or ctx.modern_runtime
        return bool(has_groups or ctx.offsets)

    def handle(self, event: Event, now: int) -> Result:
        """Handle an event; ``now`` is in ms, of a steady clock that is never set."""
        ctx = self._context
        ctx.result = result = Result()
        if not isinstance(event, Request):
            self._tables.events[type(event)](ctx, event, now)
            return result
        try:
            self._tables.handlers[event.api_key](ctx, event, now)
        except KafkaError as error:
            if ctx.result.records:
                raise  # it had already changed state, so this is a failure and not a refusal
            answer = error_response(
                event.api_key, event.message, error.code, error.message, event.api_version
            )
            ctx.reply(event.ticket, answer, getattr(event.message, "group_id", None))
        return result

    def replay(self, record: Record) -> None:
        """Apply a committed record to the hard state."""
        self._context.replay(record)

    def replay_rows(self, rows: Iterable[tuple[bytes, bytes | None]]) -> tuple[int, int]:
        """Apply encoded records; return the number of records and the number of unknown types.

        Raises :class:`protocol.records.BadRecord`.
        """
        return loading.replay_rows(self._context, rows)

    def groups_of(self, event: Event) -> Sequence[str] | None:
        """Return the groups whose state an event that raised may have changed; None: any group."""
        return restoring.groups_of(self._context, event)

    def take_failures(self) -> list[GroupFailed]:
        """Take out the groups that failed: the caller forgets them and replays their records."""
        failures = self._context.failures
        if not failures:
            return []
        taken = list(failures.values())
        failures.clear()
        return taken

    def forget(self, group_id: str) -> None:
        """Drop all state of a group; the caller then replays its records."""
        restoring.forget(self._context, group_id)

    def restored(self, group_id: str, now: int) -> Result:
        """Resume a group whose records were replayed; ``now`` in Unix milliseconds."""
        return restoring.restored(self._context, group_id, now)

    def next_deadline(self) -> int | None:
        """When ``TimersDue`` is next needed, in Unix milliseconds; None if never."""
        return self._context.timers.next_deadline()

    def shift_deadlines(self, stall_ms: int) -> None:
        """Shift all deadlines by the time that this process was stalled.

        No member is expelled, and no phase cut short, because this process stalled.
        """
        ctx = self._context
        ctx.timers.shift_deadlines(stall_ms)
        if ctx.elected_ms is not None:
            ctx.elected_ms += stall_ms
        for shift in reactions(self._tables, "shift_deadlines"):
            shift(ctx, stall_ms)

    @property
    def group_ids(self) -> Collection[str]:
        """The ids of all groups of this shard."""
        return self._context.groups.keys()

    def summary(self, group_id: str) -> GroupSummary | None:
        """Return the type and state of a group, as ListGroups does; None if it does not exist."""
        kind = type_of(self._context, group_id)
        return None if kind is None else kind.summary(self._context, group_id)

    def awaiting(self, group_id: str) -> Awaiting | None:
        """Return what a group waits for whose rebalance is under way; None if none is."""
        found = (find(self._context, group_id) for find in reactions(self._tables, "awaiting"))
        return next((each for each in found if each is not None), None)

    def events(self, group_id: str) -> list[MemberEvent]:
        """Return the recent events of a group's members, oldest first; other nodes lack them."""
        ctx = self._context
        for find in reactions(self._tables, "events_of"):
            event_log = find(ctx, group_id)
            if event_log is not None:
                return list(event_log.recent())
        return []

    def look(self, group_id: str, now: int) -> GroupLook:
        """Return a group with the sessions of some members, and without its rebalances."""
        found, sessions = self.summary(group_id), self._time_left(group_id, now)
        if found is None:
            return GroupLook("", 0, 0, sessions)
        return GroupLook(found.state, found.members, 0, sessions)

    def _time_left(self, group_id: str, now: int) -> dict[str, tuple[int, int]]:
        ctx = self._context
        classic, modern = ctx.classic_runtime.get(group_id), ctx.modern_runtime.get(group_id)
        holders: Mapping[str, SessionHolder] = {}
        if classic is not None:
            holders = classic.members
        elif modern is not None:
            holders = modern.sessions
        return {
            member_id: (
                max(ctx.session_end(holders[member_id]) - now, 0),
                holders[member_id].session_timeout_ms,
            )
            for member_id in nsmallest(SESSIONS_MAX, holders)
        }
