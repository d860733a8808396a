"""The one door to the groups of a partition: events in, results out, records replayed.

This module only dispatches: what a request, a timer or a record means is in the tables of the
modules that it puts together.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.groups import any_group, describe, loading, restoring
from protocol.groups.classic import handlers as classic
from protocol.groups.classic import rebuild
from protocol.groups.consumer import handlers as consumer
from protocol.groups.context import Context
from protocol.groups.effects import Elected, Request, Resigned, Result, TimersDue, TopicsDeleted
from protocol.groups.modern import group as modern
from protocol.groups.modern import target
from protocol.groups.offsets import commit as offsets
from protocol.groups.offsets import deleted_topics
from protocol.groups.offsets import expiry as offset_expiry
from protocol.wire.apis import error_response
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from protocol.config import Configs
    from protocol.groups.effects import Event, GroupFailed
    from protocol.groups.facts import MemberEvent
    from protocol.groups.timers import TimerKey, TimerKind
    from protocol.groups.topics import Topics
    from protocol.groups.wall import WallClock
    from protocol.records import Record


class GroupShard:
    """The groups and committed offsets of one ``__consumer_offsets`` partition.

    A standby calls ``replay`` only; a leader calls ``handle``, with ``Elected`` first.
    ``configs`` and ``topics`` are immutable images that the owner replaces when they change.
    """

    __slots__ = ("_context",)

    def __init__(self, configs: Configs, topics: Topics, rng: random.Random) -> None:
        self._context = Context(configs, topics, rng, REPLAYS)

    @property
    def configs(self) -> Configs:
        """The configs in force."""
        return self._context.configs

    @configs.setter
    def configs(self, configs: Configs) -> None:
        ctx = self._context
        if configs != ctx.configs:
            before, ctx.configs = ctx.configs, configs
            _configs_changed(ctx, list(ctx.modern))
            offset_expiry.configs_changed(ctx, before)

    @property
    def topics(self) -> Topics:
        """The topics that exist."""
        return self._context.topics

    @topics.setter
    def topics(self, topics: Topics) -> None:
        ctx, before = self._context, self._context.topics
        ctx.topics = topics
        if before.racks != topics.racks:
            ctx.rack_hashes.clear()
        if ctx.modern:
            changed, has_new = before.changed(topics)
            modern.topics_changed(ctx, changed, has_new)

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The dynamic configs of groups, by group id."""
        return self._context.group_configs

    @group_configs.setter
    def group_configs(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        ctx, before = self._context, self._context.group_configs
        ctx.group_configs = configs
        both = dict.fromkeys((*before, *configs))
        _configs_changed(ctx, [each for each in both if before.get(each) != configs.get(each)])

    @property
    def wall(self) -> WallClock:
        """The clock of what is written into records."""
        return self._context.wall

    @wall.setter
    def wall(self, wall: WallClock) -> None:
        self._context.wall = wall

    @property
    def has_groups(self) -> bool:
        """Whether there is a group or a committed offset, of any type and in any state."""
        ctx = self._context
        return bool(ctx.groups or ctx.live or ctx.modern or ctx.offsets)

    def handle(self, event: Event, now: int) -> Result:
        """Do what an event asks for; ``now`` in even milliseconds that nobody sets."""
        ctx = self._context
        ctx.result = result = Result()
        if isinstance(event, Request):
            _answer(ctx, event, now)
        else:
            _EVENTS[type(event)](ctx, event, now)
        return result

    def replay(self, record: Record) -> None:
        """Apply a committed record to the hard state."""
        self._context.replay(record)

    def replay_rows(self, rows: Iterable[tuple[bytes, bytes | None]]) -> tuple[int, int]:
        """Apply encoded records; return how many there were and how many were of unknown types.

        Raises :class:`protocol.records.BadRecord`.
        """
        return loading.replay_rows(self._context, rows)

    def groups_of(self, event: Event) -> Sequence[str] | None:
        """Name the groups whose memory may differ now that an event has raised; None: any may."""
        return restoring.groups_of(self._context, event)

    def take_failures(self) -> list[GroupFailed]:
        """Take out the groups that failed by themselves: forget them, and replay their records."""
        failures = self._context.failures
        if not failures:
            return []
        taken = list(failures.values())
        failures.clear()
        return taken

    def forget(self, group_id: str) -> None:
        """Drop all that is known of a group; its records are replayed next."""
        restoring.forget(self._context, group_id)

    def restored(self, group_id: str, now: int) -> Result:
        """Go on with a group whose records were replayed; ``now`` in Unix milliseconds."""
        return restoring.restored(self._context, group_id, now)

    def next_deadline(self) -> int | None:
        """When ``TimersDue`` is wanted next, in Unix milliseconds; None if never."""
        return self._context.timers.next_deadline()

    def forgive(self, stall_ms: int) -> None:
        """Move all deadlines by the time that this process stood still.

        Nobody is expelled, and no phase cut short, for our own sleep.
        """
        ctx = self._context
        ctx.timers.forgive(stall_ms)
        if ctx.elected_ms is not None:
            ctx.elected_ms += stall_ms
        for group in ctx.live.values():
            for member in group.members.values():
                member.session_deadline_ms += stall_ms
        for modern_group in ctx.modern.values():
            for session in modern_group.sessions.values():
                session.session_deadline_ms += stall_ms

    def events(self, group_id: str) -> list[MemberEvent]:
        """Tell what lately became of a group's members, oldest first; only this leader knows."""
        ctx = self._context
        group = ctx.live.get(group_id) or ctx.modern.get(group_id)
        return [] if group is None else group.diary.recent()


def _configs_changed(ctx: Context, group_ids: Iterable[str]) -> None:
    """Have the answers and the timers of these groups follow their configs."""
    for group_id in group_ids:
        live = ctx.modern.get(group_id)
        if live is not None:
            ctx.contain(group_id, "new configs", modern.configs_changed, ctx, live)
            ctx.contain(group_id, "new configs", target.configs_changed, ctx, live)


def _answer(ctx: Context, request: Request, now: int) -> None:
    try:
        HANDLERS[request.api_key](ctx, request, now)
    except KafkaError as error:
        if ctx.result.records:
            raise  # refused after it had changed something: that is no refusal
        message = request.message
        response = error_response(
            request.api_key, message, error.code, error.message, request.api_version
        )
        ctx.reply(request.ticket, response, getattr(message, "group_id", None))


def _elected(ctx: Context, _event: Elected, now: int) -> None:
    modern.resigned(ctx)
    classic.resigned(ctx)  # whatever an earlier term left behind
    rebuild.elected(ctx, now)
    offset_expiry.arm(ctx, now)
    deleted_topics.elected(ctx, now)


def _resigned(ctx: Context, _event: Resigned, _now: int) -> None:
    modern.resigned(ctx)
    classic.resigned(ctx)


def _timers_due(ctx: Context, _event: TimersDue, now: int) -> None:
    """Run what is due; what a timer sets for this very moment runs with the next event."""
    timers = ctx.timers
    mark = timers.mark()
    while (key := timers.pop_due(now, mark)) is not None:
        is_done = ctx.contain(key.group_id, f"timer {key.kind}", TIMEOUTS[key.kind], ctx, key, now)
        if not (is_done or key.group_id):
            timers.set(key.kind, "", "", now + restoring.RETRY_MS)  # it looks after all groups


def _topics_deleted(ctx: Context, event: TopicsDeleted, now: int) -> None:
    offsets.topics_deleted(ctx, event, now)


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {**classic.HANDLERS, **consumer.HANDLERS, **describe.HANDLERS, **offsets.HANDLERS}
)
REPLAYS: Final[Mapping[type, Callable[[Context, Any, Any], None]]] = MappingProxyType(
    {**classic.REPLAYS, **consumer.REPLAYS, **offsets.REPLAYS}
)
TIMEOUTS: Final[Mapping[TimerKind, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {**any_group.TIMEOUTS, **classic.TIMEOUTS, **consumer.TIMEOUTS, **offsets.TIMEOUTS}
)
_EVENTS: Final[Mapping[type, Callable[[Context, Any, int], None]]] = MappingProxyType(
    {
        Elected: _elected,
        Resigned: _resigned,
        TimersDue: _timers_due,
        TopicsDeleted: _topics_deleted,
        **consumer.EVENTS,
    }
)
