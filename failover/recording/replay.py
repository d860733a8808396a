"""Replay the steps of a recording with the same code, and compare the results."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from failover.recording.pickles import unpack
from failover.recording.tape import Outcome, What
from protocol.groups.context import SESSION_END
from protocol.groups.effects import ClientInfo, Request
from protocol.groups.shard import GroupShard
from protocol.groups.wall import WallClock
from protocol.reasons import reason
from protocol.wire.frames import decode_request, encode_response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from failover.recording.dump import Dump
    from failover.recording.shard import State
    from failover.recording.tape import Step
    from protocol.groups.effects import Reply, SessionHolder, Ticket
    from protocol.records import Record

CORRELATION: Final = slice(4, 8)
"""The offset of the correlation id in a request's frame."""


@dataclass(slots=True)
class Replayed:
    """The results of the steps.

    ``failures`` are the exceptions that were raised, each with the number of its step.
    ``differences`` describe steps whose result differs from the recorded one: none, if the code is
    the same. ``replies`` are the group's answers and ``records`` what it wrote, in order.
    ``compared`` counts the answers sent to clients that are the same, byte for byte.
    """

    shard: GroupShard
    replies: list[Reply] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    failures: list[tuple[int, Exception]] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    compared: int = 0


def replay(dump: Dump, until: int | None = None) -> Replayed:
    """Replay the steps, up to step number ``until`` (None: all of them)."""
    return _Replaying(dump).run(until)


class _Replaying:
    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._wall = WallClock()
        self._sessions: deque[int] = deque()
        self._asked: dict[Ticket, Request] = {}
        self._shard = shard_of(unpack(dump.state, dump.shared), self._wall)
        self._shard._context.session_end = self._session_end
        self.replayed = Replayed(self._shard)

    def run(self, until: int | None) -> Replayed:
        for number, step in enumerate(self._dump.steps[:until]):
            self._sessions.extend(step.sessions)
            outcome = self._take(number, step)
            if outcome is not None and outcome != step.outcome:
                self.replayed.differences.append(
                    f"step {number} ({step.what}): {outcome} and not {step.outcome}"
                )
            if self._sessions:
                self.replayed.differences.append(f"step {number}: sessions were not looked at")
                self._sessions.clear()
        return self.replayed

    def _take(self, number: int, step: Step) -> Outcome | None:
        if step.what in (What.EVENT, What.REQUEST):
            event = step.data if step.what == What.EVENT else _request(step.data)
            return self._handle(number, event, step.now)
        try:
            STEPS[step.what](self, step)
        except Exception as error:
            self.replayed.failures.append((number, error))
        return None

    def _handle(self, number: int, event: Any, now: int) -> Outcome:
        replayed = self.replayed
        if isinstance(event, Request):
            self._asked[event.ticket] = event
        try:
            result = self._shard.handle(event, now)
        except Exception as error:
            replayed.failures.append((number, error))
            partial = self._shard._context.result
            return Outcome(len(partial.records), (), reason(error))
        replayed.records += result.records
        replayed.replies += result.replies
        for reply in result.replies:
            self._compare(number, reply)
        return Outcome(len(result.records), tuple(reply.ticket for reply in result.replies))

    def _compare(self, number: int, reply: Reply) -> None:
        """Compare a reply with what the client was sent, where that is known."""
        request, sent = self._asked.pop(reply.ticket, None), self._dump.answers.get(reply.ticket)
        if request is None or sent is None:
            return
        correlation = int.from_bytes(request.frame[CORRELATION], "big", signed=True)
        answer = encode_response(request.api_key, request.api_version, correlation, reply.message)
        if answer == sent:
            self.replayed.compared += 1
        else:
            self.replayed.differences.append(
                f"step {number}: the answer to ticket {reply.ticket} is another one"
            )

    def _session_end(self, session: SessionHolder) -> int:
        """Let a session end when it did, however many heartbeats were repeated."""
        if self._sessions:
            session.session_deadline_ms = self._sessions.popleft()
        end_ms: int = SESSION_END(session)
        return end_ms

    # --- steps that are no events

    def _take_failures(self, step: Step) -> None:
        taken = [tuple(each) for each in self._shard.take_failures()]
        if taken != step.data:
            self.replayed.differences.append(f"the failures are {taken} and not {step.data}")

    def _forget(self, step: Step) -> None:
        self._shard.forget(step.data)

    def _replay(self, step: Step) -> None:
        rows: Sequence[Any] = step.data
        if rows and hasattr(rows[0], "key"):
            for record in rows:
                self._shard.replay(record)
        else:
            self._shard.replay_rows(rows)

    def _restored(self, step: Step) -> None:
        result = self._shard.restored(step.data, step.now)
        self.replayed.replies += result.replies
        self.replayed.records += result.records

    def _forgive(self, step: Step) -> None:
        self._shard.shift_deadlines(step.data)

    def _set_wall(self, step: Step) -> None:
        self._wall.offset_ms, self._wall.is_settled = step.data

    def _topics(self, step: Step) -> None:
        self._shard.topics = step.data

    def _configs(self, step: Step) -> None:
        self._shard.configs = step.data

    def _group_configs(self, step: Step) -> None:
        self._shard.group_configs = step.data


STEPS: Final[Mapping[str, Callable[[_Replaying, Step], None]]] = {
    What.FAILURES: _Replaying._take_failures,
    What.FORGET: _Replaying._forget,
    What.REPLAY: _Replaying._replay,
    What.RESTORED: _Replaying._restored,
    What.FORGIVE: _Replaying._forgive,
    What.WALL: _Replaying._set_wall,
    What.TOPICS: _Replaying._topics,
    What.CONFIGS: _Replaying._configs,
    What.GROUP_CONFIGS: _Replaying._group_configs,
}


def shard_of(state: State, wall: WallClock) -> GroupShard:
    """Rebuild a shard as it was when its state was packed; set the ``wall`` it reads to match."""
    values, held, (wall.offset_ms, wall.is_settled) = state
    shard = GroupShard(values["configs"], values["topics"], random.Random(0))
    ctx = shard._context
    for name, value in values.items():
        setattr(ctx, name, value)
    ctx.wall = wall
    if held is not None:
        from protocol.assignors.executor import Executor

        ctx.executor = Executor(lambda: 0.0)
        ctx.executor._cached = held
    return shard


def _request(data: Sequence[Any]) -> Request:
    ticket, api_key, api_version, following, client_id, host, frame = data
    return Request(
        ticket=ticket,
        api_key=api_key,
        api_version=api_version,
        client=ClientInfo(client_id, host),
        message=decode_request(frame).message,
        following=following,
        frame=frame,
    )
