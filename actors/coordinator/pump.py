"""Between one host and the world: the ports of its turns (:mod:`failover.turn`) in a live process.

Everything here runs on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from actors.coordinator.log_sync import LogSync
from actors.serving.listener import Listener
from actors.tasks import Tasks
from actors.telemetry.rate_limited_log import RateLimitedLog
from failover.ports import Ports
from failover.requests.inbox import SERVE_S_MAX
from failover.turn import Turn
from protocol.reasons import reason
from storage.log import LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kio.static.protocol import Entity

    from actors.clock import Clock
    from actors.coordinator.incidents import Incidents
    from actors.coordinator.log_sync import SyncedLog
    from actors.peers.peers import Peers
    from actors.serving.listener import Limits
    from actors.workers.dispatcher import WorkerDispatcher
    from failover.effects import Forward
    from failover.host import Host
    from failover.recording.recorder import Recording
    from protocol.groups.effects import Reply, Request, Ticket
    from protocol.groups.facts import Fact
    from storage.log import Write
    from storage.messages import Message

_log = logging.getLogger("rollcall.coordinator")

SERVE_S: Final = 0.001
"""For so long clients' requests are handled between two looks at the sockets; to write and answer
them takes about as long again. Where it takes longer to write (a disk that syncs slowly), they are
handled for as long as that, up to ``SERVE_S_MAX``: what many ask at once must not wait for a sync
each."""

FORWARDED_S: Final = 20.0
"""How long another node's request is worked on: shorter than that node waits for all of a call."""


class Observer(Protocol):
    """Whoever tells people what happened (:class:`actors.telemetry.observer.Telemetry`)."""

    def observe(self, fact: Fact) -> None:
        """Take a fact; must neither block nor raise."""

    def close(self, timeout_s: float = ...) -> None:
        """Deliver what is left; may block for about so long."""


class Forwarding(Protocol):
    """The way to another node for a request that only that one may answer."""

    async def forward(self, node_id: int, request: Request) -> Entity | None:
        """Carry a request to a node that may answer it; None when it was not reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PumpDependencies:
    """What a pump works with that was there before its log was opened."""

    limits: Limits
    dispatcher: WorkerDispatcher
    observer: Observer
    forwarding: Forwarding
    clock: Clock
    incidents: Incidents


class Pump:
    """Between one host and the world: its log, its clients, its peers, its workers."""

    def __init__(
        self,
        host: Host,
        log: SyncedLog,
        dependencies: PumpDependencies,
        after_turn: Callable[[], None],
    ) -> None:
        """``after_turn`` is called at the end of every turn."""
        self.host = host
        self.listener = Listener(self, dependencies.limits)
        self.listener.answered = host.recorder.answered
        self.links: Peers | None = None
        self._log = log
        self._turn = Turn(
            host,
            Ports(
                log=self,
                clock=dependencies.clock,
                peers=self,
                answers=self,
                tasks=dependencies.dispatcher,
                facts=self,
                timer=self,
            ),
        )
        self.receive = self._turn.receive
        self._dispatcher = dependencies.dispatcher
        self._observer = dependencies.observer
        self._forwarding = dependencies.forwarding
        self._clock = dependencies.clock
        self._incidents = dependencies.incidents
        self._tasks = Tasks(_log)
        self._warnings = RateLimitedLog(_log)
        self._after_turn = after_turn
        self._loop = asyncio.get_running_loop()
        self.syncs = LogSync(log, self._loop, self._synced, self._not_synced)
        self._waiting: dict[Ticket, asyncio.Future[Entity]] = {}
        self._is_scheduled = False
        self._is_closed = False
        self._written_s = 0.0
        self._armed_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """End: no client is answered any more, no peer told anything, nothing written."""
        self._is_closed = True
        self._tasks.cancel()
        self.listener.close()
        if self.links is not None:
            self.links.close()
        self.syncs.close()
        if self._timer is not None:
            self._timer.cancel()

    # --- what comes in

    def now(self) -> int:
        """Return the Unix time in milliseconds."""
        return self._clock.now()

    def wake(self) -> None:
        """Have a turn: clients' requests wait."""
        if not self._is_scheduled:
            self.forgive(self._clock.stalled_ms())
            self.schedule()

    def abandon(self, ticket: Ticket) -> None:
        """Forget a request whose client has gone away."""
        self.host.abandon(ticket)

    async def forwarded_here(self, request: Request) -> Entity | None:
        """Answer a request that another node's client made; None when there is no answer."""
        ticket = self.listener.draw_ticket()
        answer: asyncio.Future[Entity] = self._loop.create_future()
        self._waiting[ticket] = answer
        try:
            self.wake()
            self.receive(replace(request, ticket=ticket))
            return await asyncio.wait_for(answer, FORWARDED_S)
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(ticket, None)

    def receive_peer(self, node_id: int, messages: Sequence[Message]) -> None:
        """Take what a peer said; all frames of one look at the sockets share one turn."""
        self.schedule()
        self.host.receive_peer(node_id, messages, self.now())

    def tick(self) -> None:
        """Let the host do what is due."""
        self._timer, self._armed_ms = None, None
        if not self._is_closed:
            self.host.tick(self.now(), self._clock.stalled_ms())
            self.schedule()

    def forgive(self, stalled_ms: int) -> None:
        """Move the groups' deadlines by the time that this process stood still."""
        if stalled_ms:
            _log.warning(
                "this process stood still for %d ms; its groups' deadlines move by that", stalled_ms
            )
            self.host.tick(self.now(), stalled_ms)
            self.schedule()

    # --- turns

    def schedule(self) -> None:
        """Have a turn after the sockets that are ready now were read, one for all of them."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn_or_restart)

    def _turn_or_restart(self) -> None:
        try:
            self.turn()
        except Exception as error:
            self._save_before_restart(error)
            _restart(error)

    def turn(self) -> None:
        """Serve clients for a while and carry out what the host decided."""
        self._is_scheduled = False
        if self._is_closed or self.links is None:
            return
        if self._turn.take():
            self.schedule()  # the others after another look at the sockets: memo hits go first
        if faults := self.host.recorder.take_faults():
            self._save(faults)
        self._after_turn()

    # --- incidents

    def _save(self, faults: Sequence[Recording]) -> None:
        """Have files written, in another thread, with what led to faults that were contained."""
        now = self.now()
        if due := [each for each in faults if self._incidents.is_due(each, now)]:
            configs = self.host.view.configs
            self._loop.run_in_executor(None, self._incidents.write, due, configs)

    def _save_before_restart(self, error: Exception) -> None:
        """Write files with what led to a fault that ends the process."""
        recorder = self.host.recorder
        faults = recorder.take_faults()
        if not faults and not isinstance(error, LogError):
            faults = recorder.recordings(reason(error))
        self._incidents.write(faults, self.host.view.configs)

    # --- the ports of a turn

    def serve(self) -> bool:
        """Hand waiting requests to the host; True when others still wait."""
        requests_wait = self.listener.serve(serve_s(self._written_s))
        self._written_s = 0.0
        return requests_wait

    def write(self, writes: Sequence[Write]) -> None:
        """Write to the log, and measure how long that takes."""
        began_s = time.perf_counter()
        try:
            self._log.write(writes, sync=False)
        finally:
            self._written_s += time.perf_counter() - began_s

    def sync(self) -> bool:
        """Begin to sync the log in its thread."""
        self.syncs.begin()
        return False

    def _synced(self) -> None:
        self._turn.synced()
        self.schedule()

    def _not_synced(self, error: OSError) -> None:
        if not self._is_closed:
            _restart(LogError(f"the log can not be synced ({error})"))

    def send(self, node_id: int, messages: Sequence[Message]) -> None:
        """Send messages to a peer."""
        assert self.links is not None, "turns begin when there are links"
        self.links.send(node_id, messages)

    def forward(self, forward: Forward) -> None:
        """Carry a request to another node, and its answer back to the host."""
        self._tasks.spawn(self._forward(forward))

    async def _forward(self, forward: Forward) -> None:
        response = await self._forwarding.forward(forward.node_id, forward.request)
        if not self._is_closed:
            self.host.forwarded(forward.request.ticket, response)
            self.schedule()

    def answer(self, reply: Reply) -> None:
        """Answer a client, or another node that forwarded its client's request."""
        try:
            known = self.listener.answer(reply)
        except Exception as error:
            self._warnings.warn(f"an answer can not be written: {reason(error)}")
            self.listener.fail(reply.ticket, "its answer can not be written")
            return
        if not known:
            waiting = self._waiting.pop(reply.ticket, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(reply.message)

    def flush(self) -> None:
        """Send what was answered in this turn."""
        self.listener.flush()

    def observe(self, fact: Fact) -> None:
        """Count a fact and show it to the observer; what is told about is done in any case."""
        try:
            self._dispatcher.metrics.observe(fact)
            self._observer.observe(fact)
        except Exception as error:
            self._warnings.warn(f"a {type(fact).__name__} can not be told: {reason(error)}")

    def note(self, sentence: str) -> None:
        """Write a sentence to the log, unless there are very many."""
        self._warnings.warn(sentence)

    def arm(self, deadline_ms: int | None, now: int) -> None:
        """Have :meth:`tick` called at a time; each call replaces the one before."""
        if deadline_ms == self._armed_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_ms = deadline_ms
        if deadline_ms is not None:
            wait_s = max(deadline_ms - now, 0) / 1000
            self._timer = self._loop.call_later(wait_s, self.tick)


def _restart(error: Exception) -> None:
    """End the process: memory and disk may differ now. Ray restarts it, and it reads its log."""
    _log.critical("the coordinator can not go on and restarts", exc_info=error)
    logging.shutdown()
    os._exit(1)


def serve_s(written_s: float) -> float:
    """Return for how long to handle requests after a turn in which so much was spent on writing."""
    return min(max(SERVE_S, written_s), SERVE_S_MAX)
