"""A shard that records its events while it leads.

Every method that changes a shard is one step of the ring. Reads change nothing and are not
recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from failover.recording.pickles import TooLargeError, pack
from failover.recording.recorder import TOO_LARGE_MS
from failover.recording.sizes import size_of
from failover.recording.tape import ENTRY_BYTES, NOT_LED, Segment, What
from protocol.groups.effects import Request, Resigned, Result
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topics
from protocol.reasons import reason, shown

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping

    from failover.recording.recorder import Recorder
    from failover.recording.tape import Tape
    from protocol.config import Configs
    from protocol.groups.context import Context
    from protocol.groups.effects import Event, GroupFailed, SessionHolder
    from protocol.records import Record

NOT_STATE: Final = frozenset(
    {"executor", "offset_counts", "replays", "result", "session_end", "tables", "wall"}
)
"""The parts of a shard's context that are recreated, and not packed."""

State: TypeAlias = "tuple[dict[str, Any], dict[str, Any] | None, tuple[int, bool]]"
"""A shard's context by field, the groups in its own executor, and its wall clock."""

TOO_LARGE: Final = "its state is too large"
NO_ROOM: Final = "there is no room"

TOPIC_BYTES: Final = 300
"""The most that one topic takes in an image, without its partitions."""


def state_of(ctx: Context) -> State:
    """Return the parts of a shard to pack."""
    values = {name: getattr(ctx, name) for name in ctx.__slots__ if name not in NOT_STATE}
    held = None if ctx.executor is None else ctx.executor._cached
    return values, held, (ctx.wall.offset_ms, ctx.wall.is_settled)


class RecordedShard(GroupShard):
    """A :class:`GroupShard` with a ring."""

    __slots__ = ("_is_settled", "_offset_ms", "_recorder", "_sessions", "_tape", "handle")

    def __init__(
        self,
        configs: Configs,
        topics: Topics,
        rng: random.Random,
        recorder: Recorder,
        tape: Tape,
    ) -> None:
        super().__init__(configs, topics, rng)
        self._recorder = recorder
        self._tape = tape
        self._sessions: list[int] = []
        self._offset_ms, self._is_settled = 0, True
        self._context.session_end = self._session_end
        tape.switched = self._switched
        self._switched()

    def _switched(self) -> None:
        """Handle events as any shard does unless recording is on."""
        is_on = self._recorder.segment_bytes > 0
        self.handle = self._record if is_on else super().handle  # type: ignore[method-assign]

    # --- steps

    def _record(self, event: Event, now: int) -> Result:
        """Handle an event, and record it and its results."""
        room, segment = self._recorder.segment_bytes, self._tape.newer
        if self._context.elected_ms is None:
            return super().handle(event, now)
        if segment is None or segment.size >= room:
            segment = self._begin(now)
        result = super().handle(event, now) if segment is None else self._step_of(event, now)
        if type(event) is Resigned:
            self._tape.clear(NOT_LED)
            self._recorder.share_out()
        return result

    def _step_of(self, event: Event, now: int) -> Result:
        wall = self._context.wall
        if wall.offset_ms != self._offset_ms or wall.is_settled != self._is_settled:
            self._offset_ms, self._is_settled = wall.offset_ms, wall.is_settled
            self._step(What.WALL, (wall.offset_ms, wall.is_settled), now=now)
        outcome: Any
        try:
            result = super().handle(event, now)
        except Exception as error:
            why = reason(error)
            outcome = (len(self._context.result.records), (), why)
            self._recorder.fault(self._tape, f"{type(event).__name__} failed: {why}")
            self._keep(event, now, outcome)
            raise
        outcome = (len(result.records), tuple([reply.ticket for reply in result.replies]))
        self._keep(event, now, outcome)
        return result

    def _keep(self, event: Event, now: int, outcome: Any) -> None:
        segment = self._tape.newer
        assert segment is not None, "it was there before the event"
        sessions = tuple(self._sessions)
        if sessions:
            self._sessions.clear()
        if type(event) is Request and event.frame and event.ticket >= 0:
            client, frame = event.client, event.frame
            data = (
                event.ticket,
                event.api_key,
                event.api_version,
                event.following,
                client.client_id,
                client.host,
                frame,
            )
            segment.entries.append((What.REQUEST, now, data, sessions, outcome))
            segment.size += ENTRY_BYTES + len(frame)
        else:
            segment.entries.append((What.EVENT, now, event, sessions, outcome))
            segment.size += ENTRY_BYTES + size_of(event)

    def replay(self, record: Record) -> None:
        """Record a record that is replayed while this shard leads."""
        self._step(What.REPLAY, [record], size=size_of(record))
        self._contained(super().replay, record)

    def replay_rows(self, rows: Iterable[tuple[bytes, bytes | None]]) -> tuple[int, int]:
        """Record rows that are replayed while this shard leads: those of a group."""
        if self._tape.newer is not None:
            rows = list(rows)
            self._step(What.REPLAY, rows, size=size_of(rows))
        replayed: tuple[int, int] = self._contained(super().replay_rows, rows)
        return replayed

    def take_failures(self) -> list[GroupFailed]:
        """Record that failures were taken, if there were any."""
        taken = super().take_failures()
        if taken:
            self._step(What.FAILURES, [tuple(each) for each in taken])
            group_id, what, why = taken[0]
            self._fault(f"{what} for group {shown(group_id)} failed: {why}")
        return taken

    def forget(self, group_id: str) -> None:
        """Record that a group was dropped."""
        self._step(What.FORGET, group_id)
        self._contained(super().forget, group_id)

    def restored(self, group_id: str, now: int) -> Result:
        """Record that a group resumed."""
        self._step(What.RESTORED, group_id, now=now)
        result: Result = self._contained(super().restored, group_id, now)
        return result

    def shift_deadlines(self, stall_ms: int) -> None:
        """Record that deadlines were shifted."""
        self._step(What.FORGIVE, stall_ms)
        super().shift_deadlines(stall_ms)

    @property
    def topics(self) -> Topics:
        """The topics that exist."""
        return self._context.topics

    @topics.setter
    def topics(self, topics: Topics) -> None:
        is_new = topics is not self._context.topics
        self._step(What.TOPICS, topics, size=_size_of_shared(topics) if is_new else 0)
        GroupShard.topics.__set__(self, topics)  # type: ignore[attr-defined]

    @property
    def configs(self) -> Configs:
        """The configs in force."""
        return self._context.configs

    @configs.setter
    def configs(self, configs: Configs) -> None:
        if configs is not self._context.configs:
            self._step(What.CONFIGS, configs, size=size_of(configs.overrides))
        GroupShard.configs.__set__(self, configs)  # type: ignore[attr-defined]

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The dynamic configs of groups, by group id."""
        return self._context.group_configs

    @group_configs.setter
    def group_configs(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        self._step(What.GROUP_CONFIGS, configs, size=size_of(configs))
        GroupShard.group_configs.__set__(self, configs)  # type: ignore[attr-defined]

    # --- the ring

    def _begin(self, now: int) -> Segment | None:
        """Start a segment with the current state, if it may be packed now and is small enough.

        Return the segment that holds the next step, if there is one.
        """
        tape, recorder = self._tape, self._recorder
        if now >= tape.retry_ms and recorder.may_pack(now):
            shared: list[object] = []
            try:
                state = pack(state_of(self._context), shared, recorder.state_bytes_max)
            except Exception as error:
                tape.retry_ms = now + TOO_LARGE_MS
                is_large = isinstance(error, TooLargeError)
                tape.clear(TOO_LARGE if is_large else reason(error))
            else:
                size = len(state) + sum(map(_size_of_shared, shared))
                tape.begin(Segment(state, shared, size=size))
            recorder.share_out()
        elif tape.newer is not None and tape.newer.size >= 2 * recorder.segment_bytes:
            tape.clear(NO_ROOM)
            recorder.share_out()
        return tape.newer

    def _step(self, what: str, data: Any, *, now: int = 0, size: int = 0) -> None:
        segment = self._tape.newer
        if segment is not None:
            segment.entries.append((what, now, data, (), None))
            segment.size += ENTRY_BYTES + size

    def _contained(self, do: Any, *arguments: Any) -> Any:
        try:
            return do(*arguments)
        except Exception as error:
            self._fault(reason(error))
            raise

    def _fault(self, why: str) -> None:
        self._recorder.fault(self._tape, why)

    def _session_end(self, session: SessionHolder) -> int:
        deadline_ms = session.session_deadline_ms
        if self._tape.newer is not None:
            self._sessions.append(deadline_ms)
        return deadline_ms


def _size_of_shared(value: object) -> int:
    if isinstance(value, Topics):
        return TOPIC_BYTES * len(value) + sum(each.partitions for each in value)
    return 0
