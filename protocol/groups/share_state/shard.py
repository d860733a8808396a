"""The share coordinator of one partition of ``__share_group_state``, and a table of contents.

=========== ======================================================================================
``keys``     whose share state is in which partition of the log
``state``    the share state of one partition: a snapshot and its changes; ``batches`` combined
``context``  all share state of a partition of the log, written by replays
``store``    what may be done with share state, and the records
``requests`` the requests of brokers (83 to 87); ``parts`` splits and merges them
=========== ======================================================================================

The share state of topics that were deleted is removed here, as in Kafka: no group asks for it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from protocol.groups.effects import (
    Elected,
    GroupFailed,
    Request,
    Resigned,
    Result,
    TimersDue,
    TopicsDeleted,
)
from protocol.groups.share_state import store
from protocol.groups.share_state.context import ShareStateContext
from protocol.groups.share_state.requests import HANDLERS
from protocol.wire.apis import error_response
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.config import Configs
    from protocol.groups.share_state.keys import SharePartition
    from protocol.groups.topics import Topics
    from protocol.groups.wall import WallClock
    from protocol.records import Record

ShareStateEvent: TypeAlias = Request | Elected | Resigned | TimersDue | TopicsDeleted

REMOVED_AT_ONCE: Final = 500
"""Partitions of deleted topics whose share state is removed at once: a few milliseconds."""


class ShareStateShard:
    """The share state in one partition of ``__share_group_state``, as a state machine.

    ``configs`` and ``topics`` are images that the owner replaces when they change.
    """

    def __init__(self, configs: Configs, topics: Topics, wall: WallClock) -> None:
        self._context = ShareStateContext(configs, topics, wall)
        self._doomed: deque[SharePartition] = deque()
        self._due_ms: int | None = None

    @property
    def context(self) -> ShareStateContext:
        """All share state: to be read only."""
        return self._context

    @property
    def has_groups(self) -> bool:
        """Whether there is any share state."""
        return bool(self._context.states)

    def show(self, configs: Configs, topics: Topics) -> None:
        """Replace the configs in force and the topics that exist."""
        self._context.configs, self._context.topics = configs, topics

    def handle(self, event: ShareStateEvent, now: int) -> Result:
        """Handle an event; ``now`` is in ms, of a steady clock that is never set."""
        ctx = self._context
        ctx.result = result = Result()
        match event:
            case Request():
                self._answer(event, now)
            case Elected() | TopicsDeleted():
                self._look_for_deleted(now)
            case TimersDue():
                self._remove(now)
            case Resigned():
                self._doomed.clear()
                self._due_ms = None
        return result

    def _answer(self, request: Request, now: int) -> None:
        ctx = self._context
        try:
            HANDLERS[request.api_key](ctx, request, now)
        except KafkaError as error:
            if ctx.result.records:
                raise  # it had already changed state, so this is a failure and not a refusal
            answer = error_response(
                request.api_key, request.message, error.code, error.message, request.api_version
            )
            group_id: str = request.message.group_id  # type: ignore[attr-defined]  # all have one
            ctx.reply(request.ticket, answer, group_id)

    def _look_for_deleted(self, now: int) -> None:
        """Remove the share state of topics that are known to be deleted, from now on."""
        ctx = self._context
        gone = frozenset[UUID]().union(*ctx.topics.deleted.values())
        self._doomed = deque(share for share in ctx.all() if share.topic_id in gone)
        self._due_ms = now if self._doomed else None

    def _remove(self, now: int) -> None:
        for _ in range(min(len(self._doomed), REMOVED_AT_ONCE)):
            store.remove(self._context, self._doomed.popleft())
        self._due_ms = now if self._doomed else None

    def replay(self, record: Record) -> None:
        """Apply one record of the log."""
        self._context.replay(record)

    def groups_of(self, event: ShareStateEvent) -> Sequence[str] | None:  # noqa: ARG002
        """Return the groups whose share state an event had changed before it raised."""
        records = self._context.result.records
        return tuple(dict.fromkeys(record.key.group_id for record in records))  # type: ignore[attr-defined]

    def take_failures(self) -> list[GroupFailed]:
        """Return nothing: no event is about several groups."""
        return []

    def forget(self, group_id: str) -> None:
        """Drop all share state of a group; its records are replayed next."""
        self._context.result = Result()
        self._context.states.pop(group_id, None)

    def restored(self, group_id: str, now: int) -> Result:  # noqa: ARG002 - as every machine
        """Continue after a group's records were replayed."""
        return self._context.result

    def next_deadline(self) -> int | None:
        """When ``TimersDue`` is next needed; None if never."""
        return self._due_ms

    def shift_deadlines(self, stall_ms: int) -> None:
        """Move no deadline: all are due at once."""
