"""A coordinator in this process that counts its work: no socket, no disk, no time of its own.

Frames come in as from a socket, wait in the inbox, are served in turns, and their answers go out as
bytes. Time passes only in :meth:`OneNode.go_on`. So the load generators of the benchmarks can drive
it, and the same load always costs the same work.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from types import SimpleNamespace
from typing import Any

from actors.serving.memo import LEASED_KEYS, Memo
from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import Node
from failover.requests.inbox import Inbox, serve
from protocol.client.frames import LENGTH
from protocol.client.versions import version_of
from protocol.groups.effects import CancelAssignment, Reply, Request, Task
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import (
    decode_request,
    encode_response,
    group_id_in,
    without_correlation_id,
)
from storage.log import AppendBatch, MemoryLog, Write
from tests.failover.apis.asks import create_topics
from tests.failover.hosts import CLIENT, Driver

SERVE_S = 0.001
RUN_MS = 50
"""What an assignor's run is taken to last."""


@dataclass(slots=True)
class Work:
    """What was done.

    ``asked`` are the requests that the host was asked, ``repeated`` those that the memo answered;
    ``record_bytes`` are keys and values, ``runs`` those of assignors.
    """

    turns: int = 0
    writes: int = 0
    syncs: int = 0
    batches: int = 0
    record_bytes: int = 0
    asked: int = 0
    repeated: int = 0
    answer_bytes: int = 0
    runs: int = 0

    def since(self, before: "Work") -> "Work":
        """Return what was done since then."""
        mine, theirs = astuple(self), astuple(before)
        return Work(*(now - then for now, then in zip(mine, theirs, strict=True)))


class Line:
    """One client's connection, as ``bench.client.reactor.Channel``."""

    def __init__(self, node: "OneNode") -> None:
        self._node = node
        self.received: Callable[[bytes], None] = lambda _: None

    def send(self, data: bytes) -> None:
        """Send one whole request frame, or several."""
        while data:
            end = LENGTH.size + LENGTH.unpack_from(data)[0]
            self._node.take_frame(self, bytes(data[LENGTH.size : end]))
            data = data[end:]


class OneNode(Driver):
    """One node that leads one partition and the catalogue, and what it does."""

    def __init__(self, request_ms: float = 0.05, **configs: str) -> None:
        """``request_ms`` is how long handling one request is taken to last."""
        self.work = Work()
        self._request_ms = request_ms
        self._spent_ms = 0.0
        self.records: Counter[int] = Counter()
        self.inbox: Inbox[tuple[Line, bytes, bytes | None]] = Inbox()
        self.memo = Memo()
        self._asked: dict[int, tuple[Line, int, int, bytes, bytes | None]] = {}
        self._runs: list[tuple[int, int, int, Task]] = []
        self._numbers = count()
        self._said: list[Callable[[], None]] = []
        self._executor: Any = None
        self.reactor: Any = SimpleNamespace(turn=self.go_on)
        super().__init__(MemoryLog(), configs=configs)
        self.load()
        self.host.catalog_event(NodeChanged(Node(0, "host0", 9092, up=True)), self.now)
        self.pump()

    # --- for the load

    def measure(self, do: Callable[[], object]) -> Work:
        """Return the work that something makes."""
        before = replace(self.work)
        do()
        return self.work.since(before)

    def open(self, lines: int) -> list[Any]:
        """Open connections."""
        return [Line(self) for _ in range(lines)]

    def seconds(self) -> float:
        """Return the time as load generators want it."""
        return self.now / 1000

    def go_on(self, timeout_s: float) -> None:
        """Give answers and take one turn; if there is nothing to do, let time pass."""
        if self.serve_some():
            self._tick()
            return
        until = self.now + max(round(timeout_s * 1000), 1)
        due = [until, *([self._runs[0][0]] if self._runs else [])]
        deadline = self.host.next_deadline()
        if deadline is not None:
            due.append(deadline)
        self.now = max(min(due), self.now)
        self._tick()

    def _tick(self) -> None:
        while self._runs and self._runs[0][0] <= self.now:
            _, _, partition, task = heappop(self._runs)
            self.work.runs += 1
            self.host.computed(partition, self._run(task), self.now)
        deadline = self.host.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.host.tick(self.now)
            self._take()

    def create_topics(self, names: Sequence[str], partitions: int) -> None:
        """Create topics."""
        message = create_topics(*names, partitions=partitions)
        answer = self.ask(type(message).__api_key__, version_of(message), message)
        assert all(each.error_code == ErrorCode.none for each in answer.topics), answer

    def take_frame(self, line: Line, frame: bytes) -> None:
        """Take a frame as ``actors.serving.listener.Connection`` does."""
        key = None
        if frame[:2] in LEASED_KEYS:
            key = without_correlation_id(frame)
            answer = self.memo.recall(key, frame, lambda: self.now)
            if answer is not None:
                self.work.repeated += 1
                self._later(partial(line.received, answer))
                return
        self.inbox.push(group_id_in(frame) or b"", (line, frame, key))

    # --- turns

    def serve_some(self) -> bool:
        """Give the answers that are there and take one turn; False when nothing is to do."""
        if not self._said and not self.inbox:
            return False
        said, self._said = self._said, []
        for say in said:
            say()
        if self.inbox:
            self._take()
        return True

    def _take(self) -> None:
        self.work.turns += 1
        self.pump()

    def _later(self, say: Callable[[], None]) -> None:
        self._said.append(say)

    # --- the ports of a turn

    def serve(self) -> bool:
        return serve(self.inbox, self._ask, lambda: (self.now + self._spent_ms) / 1000, SERVE_S)

    def _ask(self, item: tuple[Line, bytes, bytes | None]) -> None:
        line, frame, key = item
        self._spent_ms += self._request_ms
        passed_ms = int(self._spent_ms)
        self.now += passed_ms
        self._spent_ms -= passed_ms
        decoded = decode_request(frame)
        self.tickets += 1
        self.work.asked += 1
        self._asked[self.tickets] = (
            line, decoded.api_key, decoded.api_version, frame[4:8], key,
        )  # fmt: skip
        request = Request(
            ticket=self.tickets,
            api_key=decoded.api_key,
            api_version=decoded.api_version,
            client=replace(CLIENT, client_id=decoded.client_id or ""),
            message=decoded.message,
            following=self.inbox.following,
        )
        self.host.receive(request, self.now)

    def answer(self, reply: Reply) -> None:
        asked = self._asked.pop(reply.ticket, None)
        if asked is None:
            super().answer(reply)
            return
        line, api_key, version, correlation, key = asked
        answer = encode_response(api_key, version, int.from_bytes(correlation), reply.message)
        self.work.answer_bytes += len(answer)
        if reply.lease is not None and key is not None:
            self.memo.remember(key, reply.lease, answer)
        self._later(partial(line.received, answer))

    def sync(self) -> bool:
        self.work.syncs += 1
        return super().sync()

    def write(self, writes: Sequence[Write]) -> None:
        self.log.write(writes, sync=False)
        self.work.writes += 1
        for write in writes:
            if isinstance(write, AppendBatch):
                self.work.batches += 1
                for key, value in write.batch.records:
                    self.records[int.from_bytes(key[:2])] += 1
                    self.work.record_bytes += len(key) + len(value or b"")

    def submit(self, partition: int, task: Task) -> None:
        if not isinstance(task, CancelAssignment):
            heappush(self._runs, (self.now + RUN_MS, next(self._numbers), partition, task))

    def _run(self, task: Any) -> Any:
        if self._executor is None:
            from protocol.assignors.executor import Executor

            self._executor = Executor(lambda: 0.0)
        return self._executor.run(task)
