"""Replies of one partition on their way out: end of the turn, commit of their records, lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.partitions.gate import CommitGate
from protocol.groups.effects import CallShareState, Reply
from protocol.wire.apis import error_response

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from failover.partitions.gate import Held
    from protocol.groups.effects import LeaderLease, Request, Task, Ticket
    from protocol.wire.errors import ErrorCode


def refusal(request: Request, code: ErrorCode) -> Reply:
    """Return the answer to a request that is refused."""
    answer = error_response(request.api_key, request.message, code, None, request.api_version)
    return Reply(request.ticket, answer)


class Replies:
    """``open`` has the requests that are not answered yet; a reply to any other is dropped.

    ``new`` are the replies of this turn, each with the groups whose records it waits for (None: all
    groups), ``gate`` holds those whose records are not committed, ``committed`` are those that wait
    only for a lease. ``calls`` are groups' calls of share coordinators that may be sent: they wait
    as replies do. ``deferred`` are the groups of requests about several that are answered by a
    later event. ``unleased_from_ms`` is since when there has been none. At ``silent_at_ms`` they
    have waited too long: another replica should lead. The first ``_ran`` of ``new`` are known to
    wait for the groups ``_running``.
    """

    def __init__(self, patience_ms: int) -> None:
        self.open: dict[Ticket, Request] = {}
        self.new: list[tuple[Held, Sequence[str] | None]] = []
        self.gate = CommitGate()
        self.committed: list[Held] = []
        self.calls: list[CallShareState] = []
        self.deferred: dict[Ticket, Sequence[str] | None] = {}
        self.unleased_from_ms: int | None = None
        self.silent_at_ms: int | None = None
        self._patience_ms = patience_ms
        self._running: frozenset[str] = frozenset()
        self._ran = 0

    def add(
        self,
        replies: Iterable[Reply],
        asked: Ticket | None = None,
        depends_on: Sequence[str] | None = (),
    ) -> None:
        """Add replies: that to ``asked`` waits for ``depends_on``, others for their own group."""
        for reply in replies:
            if reply.ticket == asked:
                groups = depends_on
                asked = None
            elif reply.ticket in self.deferred:
                groups = self.deferred.pop(reply.ticket)
            else:
                groups = () if reply.group_id is None else (reply.group_id,)
            self.new.append((reply, groups))
        if asked is not None:
            self.deferred[asked] = depends_on

    def hold_calls(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Add the groups' calls of share coordinators; return the tasks that need not wait."""
        calls = [task for task in tasks if isinstance(task, CallShareState)]
        self.new += [(call, (call.group_id,)) for call in calls]
        return [task for task in tasks if not isinstance(task, CallShareState)] if calls else tasks

    def take_calls(self) -> Sequence[CallShareState]:
        """Remove and return the calls that may be sent."""
        calls, self.calls = self.calls, []
        return calls

    def pass_gate(self, running: Collection[str]) -> None:
        """Let each new reply pass the gate or wait there; those of ``running`` groups stay new."""
        gate, committed = self.gate, self.committed
        known = self._ran if self._running.issubset(running) else 0
        replies = self.new[known:]
        del self.new[known:]
        for reply, groups in replies:
            if running and groups and groups[0] in running:
                self.new.append((reply, groups))
            elif (free := gate.pass_or_hold(reply, groups)) is not None:
                committed.append(free)
        self._running, self._ran = frozenset(running), len(self.new)

    def release(self, high_watermark: int) -> None:
        """Release the replies whose records are committed."""
        self.committed += self.gate.release(high_watermark)

    def use_lease(self, now: int, leadership: LeaderLease, out: list[Reply]) -> None:
        """Send committed replies while there is a lease; note since when there is none."""
        if self.committed and now < leadership.lease_until_ms:
            self.let_out(leadership, out)
        if not self.committed:
            self.unleased_from_ms = self.silent_at_ms = None
        elif self.unleased_from_ms is None:
            self.unleased_from_ms, self.silent_at_ms = now, now + self._patience_ms

    def let_out(self, leadership: LeaderLease, out: list[Reply]) -> None:
        """Send replies that waited only for the lease; send nothing twice."""
        take = self.open.pop
        for reply in self.committed:
            if isinstance(reply, CallShareState):
                self.calls.append(reply)
            elif take(reply.ticket, None) is not None:
                if reply.lease is not None:
                    reply.lease.leadership = leadership
                out.append(reply)
        self.committed.clear()

    # --- what is refused instead

    def refuse_gate(self, code: ErrorCode, out: list[Reply]) -> None:
        """Refuse the requests in the gate now; their later replies are dropped."""
        for reply in _replies(self.gate.waiting()):
            request = self.open.pop(reply.ticket, None)
            if request is not None:
                out.append(refusal(request, code))

    def refuse_parked(self, group_id: str, code: ErrorCode, others: Iterable[Request]) -> None:
        """Refuse the requests that are parked in a group; ``others`` are parked elsewhere."""
        held = (*(each for each, _ in self.new), *self.committed, *self.gate.waiting())
        answered = {reply.ticket for reply in _replies(held)}
        answered.update(request.ticket for request in others)
        for ticket, request in self.open.items():
            named = getattr(request.message, "group_id", None)
            is_among = group_id in (self.deferred.get(ticket) or ())
            if (named == group_id or is_among) and ticket not in answered:
                self.deferred.pop(ticket, None)
                self.new.append((refusal(request, code), ()))

    def take_back(self, group_id: str) -> list[tuple[Request, Sequence[str] | None]]:
        """Take back this turn's answers for a group, with the groups of each reply."""
        taken: list[tuple[Request, Sequence[str] | None]] = []
        replies, self.new = self.new, []
        self._ran = 0
        for reply, groups in replies:
            if isinstance(reply, CallShareState):
                if reply.group_id != group_id:
                    self.new.append((reply, groups))
                continue
            request = self.open.get(reply.ticket)
            if request is None or (groups is not None and group_id not in groups):
                self.new.append((reply, groups))
            else:
                taken.append((request, groups))
        return taken

    def refuse(self, request: Request, code: ErrorCode) -> None:
        """Answer a request with an error that does not wait for a commit."""
        self.open[request.ticket] = request
        self.new.append((refusal(request, code), ()))

    def refuse_all(self, code: ErrorCode, out: list[Reply]) -> None:
        """Refuse all waiting requests, and forget what was already answered."""
        out += [refusal(request, code) for request in self.open.values()]
        self.open.clear()
        self.new.clear()
        self._ran = 0
        self.deferred.clear()
        self.calls.clear()
        self.committed.clear()
        self.unleased_from_ms = self.silent_at_ms = None
        self.gate.clear()


def _replies(held: Iterable[Held]) -> list[Reply]:
    return [each for each in held if isinstance(each, Reply)]
