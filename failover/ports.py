"""Everything that a turn uses outside the host, as small interfaces (:mod:`failover.turn`).

An implementation of a port may fail only as the port's docstring says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from failover.effects import Forward
    from protocol.groups.effects import Reply, WorkerTask
    from protocol.groups.facts import Fact
    from storage.log import Write
    from storage.messages import Message


class LogPort(Protocol):
    """The log of this process (:class:`storage.log.Log`)."""

    def write(self, writes: Sequence[Write]) -> None:
        """Write everything in order, as one atomic unit that readers see at once.

        Raises :class:`storage.log.FullDiskError` when nothing of it was written, and any other
        :class:`storage.log.LogError` when the process must restart from its log.
        """

    def sync(self) -> bool:
        """Start to sync everything written so far; return True when that is already done.

        Otherwise :meth:`failover.turn.Turn.synced` is called when it is done, and a turn is taken.
        No other sync is started before that. A failed sync ends the process: the contents of the
        disk are then unknown, and another sync would not reveal them.
        """


class ClockPort(Protocol):
    """The time of this process."""

    def now(self) -> int:
        """Return the Unix time in milliseconds."""


class PeersPort(Protocol):
    """The links to the other nodes; messages may be lost."""

    def send(self, node_id: int, messages: Sequence[Message]) -> None:
        """Send all messages of one turn to one node."""

    def forward(self, forward: Forward) -> None:
        """Carry a request to the node that may answer it; see :class:`Forward`."""


class AnswersPort(Protocol):
    """The clients of this process."""

    def serve(self) -> bool:
        """Pass waiting requests to the host for a limited time; True when others still wait."""

    def answer(self, reply: Reply) -> None:
        """Queue one answer; it may be kept until :meth:`flush`."""

    def flush(self) -> None:
        """Send the answers of this turn."""


class TasksPort(Protocol):
    """The workers that compute assignments."""

    def submit(self, partition: int, task: WorkerTask) -> None:
        """Start a task; its result arrives through ``Host.computed``."""


class FactsPort(Protocol):
    """Metrics, traces and the log that operators read. Neither method blocks or raises."""

    def observe(self, fact: Fact) -> None:
        """Record a fact."""

    def note(self, sentence: str) -> None:
        """Log a message."""


class TimerPort(Protocol):
    """The one timer of this process."""

    def arm(self, deadline_ms: int | None, now: int) -> None:
        """Call ``Host.tick`` and take a turn at ``deadline_ms``; None: nothing is due.

        Each call replaces the previous one.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything outside the host that a turn uses."""

    log: LogPort
    clock: ClockPort
    peers: PeersPort
    answers: AnswersPort
    tasks: TasksPort
    facts: FactsPort
    timer: TimerPort
