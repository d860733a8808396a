"""How a load that runs elsewhere is watched, and told when to end: a connection for each task.

Each task connects to its :class:`LoadWatcher` and tells it, every few seconds, what its members
hold. The watcher tells all tasks when the load ends, and from which moment on costs count. Then
each takes its members' histories and says so. Only when all have done that, the connections end and
the members leave: nobody's history shows that others left. A message is a line of JSON.

Either side notices when the other one is gone: a task that nobody watches ends, and the members of
a task that has ended are missing.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import socketserver
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from actors.clock import wall_ms
from actors.waiting import poll
from bench.load.stability import GroupShare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.client.cluster_client import Address

LINE_BYTES_MAX: Final = 1 << 20
"""A longer line ends the connection; a hundred groups take ten thousand bytes."""

GROUPS_EACH: Final = 1_000
"""In one line; a task with more groups tells them in several."""

SILENT_S: Final = 30.0
"""A task that says nothing for so long is lost, as its host may be; a watcher is, too."""

CONNECT_S: Final = 30.0
WHY_CHARACTERS_MAX: Final = 300
STRANGERS_MAX: Final = 8
"""So many connections beside those of the tasks are accepted."""


class WatchError(Exception):
    """Nobody watches a task any more, or not yet; the message says so."""


@dataclass(slots=True, kw_only=True)
class _Task:
    host: str
    connection: socket.socket
    shares: dict[str, GroupShare] = field(default_factory=dict)
    told: dict[str, GroupShare] = field(default_factory=dict)
    """What it has told of its shares, while more is to come."""
    counts: Counter[str] = field(default_factory=Counter)
    has_taken: bool = False
    is_there: bool = True
    why: str = ""
    """Why it has ended, in words that it could still send."""
    ahead_ms: float | None = None
    """How far its host's clock is ahead of ours, less the time of its quickest message."""


class LoadWatcher:
    """Watches the ``tasks`` tasks of a load inside a ``with`` block, on an address of ``host``."""

    def __init__(self, host: str, tasks: int) -> None:
        self._tasks = tasks
        self._known: dict[int, _Task] = {}
        self._lock = threading.Lock()
        self._server = _Server((host, 0), partial(_Handler, self), tasks + STRANGERS_MAX)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="watcher", daemon=True
        )

    @property
    def address(self) -> Address:
        """Where the tasks find it."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._close_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def hosts(self) -> list[str]:
        """The hosts of the tasks that run, by task."""
        with self._lock:
            return [task.host for _, task in sorted(self._known.items()) if task.is_there]

    def lost(self) -> list[str]:
        """Return a sentence for each task that has ended before it was told to."""
        return [self.sentence(number) for number in self.lost_tasks()]

    def lost_tasks(self) -> list[int]:
        """Return the numbers of these tasks."""
        with self._lock:
            return [number for number, task in sorted(self._known.items()) if not task.is_there]

    def sentence(self, number: int) -> str:
        """Say that a task has ended, where, and why if it is known."""
        with self._lock:
            task = self._known.get(number)
        if task is None:
            return f"Task {number} of the load has ended."
        why = f": {task.why}" if task.why else ""
        return f"Task {number} of the load, on {task.host}, has ended{why}."

    def clock_error_ms(self) -> int:
        """Return how far the clocks of the tasks' hosts may differ, as their messages show it.

        The quickest message of each task has been on its way for next to no time.
        """
        with self._lock:
            seen = [task.ahead_ms for task in self._known.values() if task.ahead_ms is not None]
            hosts = {task.host for task in self._known.values()}
        return math.ceil(max(seen) - min(seen)) if len(hosts) > 1 and seen else 0

    def unstable_groups(self, members: int, partitions: int) -> list[str]:
        """Return, for each group that is not Stable, a sentence that says why.

        There are so many members in all, and each group has so many partitions.
        """
        shares, running = self.shares(), len(self.hosts)
        if running < self._tasks:
            return [f"{running} of {self._tasks} tasks of the load run."]
        started = sum(share.members for share in shares.values())
        if started < members:
            return [f"{started} of {members} members have started."]
        reasons = ((group_id, share.why_unstable(partitions)) for group_id, share in shares.items())
        return [f"{group_id}: {why}." for group_id, why in sorted(reasons) if why]

    def shares(self) -> dict[str, GroupShare]:
        """Return what the members of the tasks that run hold of each group."""
        with self._lock:
            running = [task for task in self._known.values() if task.is_there]
            shares: dict[str, GroupShare] = {}
            for task in running:
                for group_id, share in task.shares.items():
                    shares[group_id] = shares.get(group_id, GroupShare()) + share
            return shares

    def counts(self) -> Counter[str]:
        """Return what the tasks have counted, added up."""
        with self._lock:
            return sum((task.counts for task in self._known.values()), Counter[str]())

    def end(self, fault_ms: int, within_s: float) -> None:
        """Tell all tasks to end; costs count from ``fault_ms`` (Unix time).

        Returns when all that are there have their members' histories, or after ``within_s``.
        """
        self.tell({"fault_ms": fault_ms})
        poll(self._is_taken, within_s)
        self._close_all()

    def _is_taken(self) -> bool:
        with self._lock:
            return all(task.has_taken for task in self._known.values() if task.is_there)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Tell all tasks something."""
        with self._lock:
            there = [task for task in self._known.values() if task.is_there]
        for task in there:
            with contextlib.suppress(OSError):  # its handler notices
                task.connection.sendall(_line(message))

    def _close_all(self) -> None:
        with self._lock:
            for task in self._known.values():
                with contextlib.suppress(OSError):  # it has ended already
                    task.connection.shutdown(socket.SHUT_RDWR)

    def joined(self, connection: socket.socket, message: Mapping[str, Any]) -> int | None:
        """Note a task by its first message and return its number; None: it is not wanted."""
        with self._lock:
            number = int(message["task"])
            if number in self._known or not 0 <= number < self._tasks:
                return None
            self._known[number] = _Task(host=str(message["host"]), connection=connection)
            return number

    def told(self, number: int, message: Mapping[str, Any]) -> None:
        """Note a further message of a task."""
        with self._lock:
            task = self._known[number]
            task.has_taken = task.has_taken or bool(message.get("taken"))
            task.why = str(message.get("failed", task.why))[:WHY_CHARACTERS_MAX]
            if (told_ms := message.get("clock_ms")) is not None:
                ahead_ms = float(told_ms) - wall_ms()
                task.ahead_ms = max(ahead_ms, ahead_ms if task.ahead_ms is None else task.ahead_ms)
            if (shares := message.get("shares")) is not None:
                for group_id, share in shares.items():
                    task.told[group_id] = GroupShare(**share)
                if not message.get("more"):
                    task.shares, task.told = task.told, {}
            if (counts := message.get("counts")) is not None:
                task.counts = Counter({str(name): int(count) for name, count in counts.items()})

    def left(self, number: int) -> None:
        """Note that a task is gone."""
        with self._lock:
            self._known[number].is_there = False


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, handler: Any, connections_max: int) -> None:
        super().__init__(address, handler)
        self._free = threading.BoundedSemaphore(connections_max)

    def verify_request(self, *_given: Any) -> bool:
        """Refuse a connection when there are too many."""
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, then make room for another one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(socketserver.StreamRequestHandler):
    timeout = SILENT_S

    def __init__(self, watcher: LoadWatcher, *given: Any) -> None:
        self._watcher = watcher
        super().__init__(*given)

    def handle(self) -> None:
        """Read the lines of a task until it is gone, or says what it must not say."""
        number = None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            number = self._watcher.joined(self.connection, self._message())
            while number is not None:
                self._watcher.told(number, self._message())
        if number is not None:
            self._watcher.left(number)

    def _message(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.rfile.readline(LINE_BYTES_MAX))
        return message


class Watched:
    """A task's end of the connection; use it inside a ``with`` block."""

    def __init__(self, address: Address, task: int) -> None:
        try:
            self._connection = socket.create_connection(address, CONNECT_S)
        except OSError as error:
            raise WatchError(f"Nobody watches the load at {address[0]}:{address[1]}.") from error
        timeout_ms = int(SILENT_S * 1000)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
        self._received = b""
        self._say({"task": task, "host": socket.gethostname()})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def tell(
        self,
        shares: Mapping[str, GroupShare],
        counts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Tell what the members hold of each group, and what was counted of them."""
        left = list(shares.items())
        while len(left) > GROUPS_EACH:
            self._say({"shares": _named(dict(left[:GROUPS_EACH])), "more": True})
            del left[:GROUPS_EACH]
        told = {"shares": _named(dict(left)), "counts": dict(counts)}
        self._say({**told, "clock_ms": wall_ms()})

    def fails(self, why: str) -> None:
        """Say why this task ends, if that can still be said."""
        with contextlib.suppress(WatchError):
            self._say({"failed": why[:WHY_CHARACTERS_MAX]})

    def ends(self, within_s: float) -> int | None:
        """Wait so long for the load to end; return from when on costs count, or None."""
        message = self.heard(within_s)
        return None if message is None else int(message["fault_ms"])

    def heard(self, within_s: float) -> dict[str, Any] | None:
        """Wait so long for the next message of the watcher, and return it."""
        self._connection.settimeout(within_s)
        try:
            received = self._connection.recv(4096)
        except TimeoutError:
            return None
        except OSError:
            received = b""
        if not received:
            raise WatchError("Nobody watches the load any more.")
        self._received += received
        if not self._received.endswith(b"\n"):
            return None
        line, self._received = self._received, b""
        message: dict[str, Any] = json.loads(line)
        return message

    def has_taken(self) -> None:
        """Say that the histories are taken, and wait until those of all others are."""
        self._say({"taken": True})
        self._connection.settimeout(SILENT_S)
        with contextlib.suppress(OSError):
            self._connection.recv(1)

    def _say(self, message: Mapping[str, Any]) -> None:
        self._connection.settimeout(SILENT_S)
        try:
            self._connection.sendall(_line(message))
        except OSError as error:
            raise WatchError("Nobody watches the load any more.") from error


def _named(shares: Mapping[str, GroupShare]) -> dict[str, dict[str, Any]]:
    return {
        group_id: {
            "members": share.members,
            "joined": share.joined,
            "ready": share.ready,
            "generations": [*share.generations],
            "owned": share.owned,
        }
        for group_id, share in shares.items()
    }


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
