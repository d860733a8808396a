"""Runs the turns of one host in a live process: implements the ports of :mod:`failover.turn`.

Everything here runs on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.coordinator.leaderships import Leaderships
from actors.coordinator.log_sync import LogSync
from actors.coordinator.write_time import WriteTime
from actors.serving.listener import Listener
from actors.stories.keeper import StoryKeeper
from actors.tasks import Tasks
from actors.telemetry.event_metrics import TIMED_APIS
from actors.telemetry.rate_limited_log import RateLimitedLog
from failover.ports import Ports
from failover.requests.inbox import SERVE_S_MAX
from failover.turn import Turn
from protocol.reasons import reason
from storage.log import LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kio.static.protocol import Entity

    from actors.clock import Clock
    from actors.coordinator.incidents import Incidents
    from actors.coordinator.log_sync import SyncedLog
    from actors.peers.peers import Peers
    from actors.serving.listener import Limits
    from actors.telemetry.event_metrics import EventMetrics
    from actors.telemetry.group_metrics import GroupMetrics
    from actors.telemetry.leader_metrics import LeaderMetrics
    from actors.workers.dispatcher import WorkerDispatcher
    from failover.effects import Forward
    from failover.host import Host
    from protocol.groups.effects import Reply, Request, Ticket
    from protocol.groups.facts import Fact
    from protocol.stories.history import StoryEntry
    from storage.log import Write
    from storage.messages import Message

_log = logging.getLogger("rollcall.coordinator")

SERVE_S: Final = 0.001
"""How long to handle clients' requests before the event loop polls its sockets; writing and
answering them takes about as long again. If writes take longer (a slow disk), requests are handled
for as long as the last write, up to ``SERVE_S_MAX``, so that concurrent requests share a sync."""

FORWARDED_S: Final = 20.0
"""The timeout of a forwarded request: shorter than the forwarding node's timeout of a call."""


class Observer(Protocol):
    """A consumer of facts (:class:`actors.telemetry.observer.Telemetry`)."""

    def observe(self, fact: Fact) -> None:
        """Handle a fact; must neither block nor raise."""

    def run_context(self, group_id: str, run: int) -> str:
        """Return the trace context that a worker gets with a run; "": none."""

    def close(self, timeout_s: float = ...) -> None:
        """Deliver the remaining facts; may block for about ``timeout_s``."""


class Forwarding(Protocol):
    """Forwards requests to other nodes."""

    async def forward(self, node_id: int, request: Request) -> Entity | None:
        """Forward a request to another node; return None if it was not reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PumpDependencies:
    """What a pump needs that exists before the log is opened."""

    limits: Limits
    dispatcher: WorkerDispatcher
    group_metrics: GroupMetrics
    event_metrics: EventMetrics
    leader_metrics: LeaderMetrics
    observer: Observer
    forwarding: Forwarding
    clock: Clock
    incidents: Incidents


class Pump:
    """Connects one host to its log, its clients, its peers and its workers."""

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
        self._stories: StoryKeeper | None = None
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
        self._group_metrics = dependencies.group_metrics
        self._event_metrics = dependencies.event_metrics
        self.listener.timed = self._event_metrics.timed
        self.listener.began = self._event_metrics.began
        self._observer = dependencies.observer
        self._forwarding = dependencies.forwarding
        self._clock = dependencies.clock
        self._incidents = dependencies.incidents
        self._tasks = Tasks(_log)
        self._warnings = RateLimitedLog(_log)
        self._after_turn = after_turn
        self._loop = asyncio.get_running_loop()
        self._leaderships = Leaderships(host, self._loop, dependencies.leader_metrics, self._linked)
        self.syncs = LogSync(log, self._loop, self._synced, self._not_synced)
        self.syncs.took = self._event_metrics.sync_s.add
        self._waiting: dict[Ticket, asyncio.Future[Entity]] = {}
        self._is_scheduled = False
        self._has_served = False
        self._is_closed = False
        self._writing = WriteTime()
        self._armed_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def keep_stories(self, path: Path) -> None:
        """Tell the stories of rebalances, and store those that this node remembers in a file."""
        node_id, stories = self.host.identity.node_id, self.host.stories
        self._stories = StoryKeeper(
            node_id,
            path,
            self.now,
            deliver=partial(self._in_loop, self._add_stories),
            restore=partial(self._in_loop, lambda stored: stories.restore(*stored[:2])),
        )
        stories.upon_news = self._stories.store

    @property
    def has_told(self) -> bool:
        """Whether all facts so far are told, and what was told of them is remembered."""
        return self._stories is None or self._stories.is_idle

    def _in_loop(self, do: Callable[[Any], None], argument: Any) -> None:
        """Call a function on the event loop, from another thread; not once that is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(do, argument)

    def _add_stories(self, entries: Sequence[StoryEntry]) -> None:
        if not self._is_closed:
            self.host.add_stories(entries)
            self.schedule()

    def close(self) -> None:
        """Stop: answer no client, send nothing to peers, write nothing."""
        self._is_closed = True
        self._leaderships.close()
        if self._stories is not None:
            self._stories.close()
        self._tasks.cancel()
        self.listener.close()
        if self.links is not None:
            self.links.close()
        self.syncs.close()
        if self._timer is not None:
            self._timer.cancel()

    # --- incoming

    def now(self) -> int:
        """Return the current time in Unix milliseconds."""
        return self._clock.now()

    def wake(self) -> None:
        """Schedule a turn because client requests wait."""
        if not self._is_scheduled:
            self.shift_deadlines(self._clock.stalled_ms())
            self.schedule()

    def abandon(self, ticket: Ticket) -> None:
        """Drop a request whose client has disconnected."""
        self._event_metrics.abandoned(ticket)
        self.host.abandon(ticket)

    async def forwarded_here(self, request: Request) -> Entity | None:
        """Handle a request that another node forwarded; None if there is no response in time."""
        ticket = self.listener.draw_ticket()
        answer: asyncio.Future[Entity] = self._loop.create_future()
        self._waiting[ticket] = answer
        try:
            self.wake()
            if request.api_key in TIMED_APIS:
                self._event_metrics.began(ticket, request.api_key)
            self.receive(replace(request, ticket=ticket))
            return await asyncio.wait_for(answer, FORWARDED_S)
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(ticket, None)

    def campaign(self, partition: int) -> None:
        """Stand for election on the controller's advice."""
        self._leaderships.advised(partition)
        self.host.campaign(partition, self.now())
        self.schedule()

    def transfer(self, partition: int, node_id: int) -> None:
        """Transfer a partition to another node on the controller's advice."""
        self._leaderships.asked_to_move(partition, node_id)
        self.host.transfer(partition, node_id, self.now())
        self.schedule()

    def begin_drain(self) -> None:
        """Transfer everything that is led here, and lead nothing, until :meth:`end_drain`."""
        if not self.host.draining:
            self.host.draining = True
            _log.info("this coordinator hands over all that it leads, and leads nothing meanwhile")

    def handed_over(self, left: Sequence[int]) -> None:
        """Log the outcome: ``left`` are the partitions that are still led here."""
        if left:
            _log.warning("%d partitions stay here: no standby could take over", len(left))
        else:
            _log.info("this coordinator has handed over all that it led")

    def end_drain(self) -> None:
        """Allow this node to lead again."""
        if self.host.draining:
            self.host.draining = False
            _log.info("this coordinator may lead again: its drain has ended")

    def _linked(self) -> Sequence[int]:
        return () if self.links is None else self.links.linked

    def receive_peer(self, node_id: int, messages: Sequence[Message]) -> None:
        """Handle messages from a peer; all frames of one poll share one turn."""
        self.schedule()
        self.host.receive_peer(node_id, messages, self.now())

    def tick(self) -> None:
        """Run the host's timers that are due."""
        self._timer, self._armed_ms = None, None
        if not self._is_closed:
            self.host.tick(self.now(), self._clock.stalled_ms())
            self.schedule()

    def shift_deadlines(self, stalled_ms: int) -> None:
        """Move the groups' deadlines by the time that this process was stalled."""
        if stalled_ms:
            _log.warning(
                "this process was stalled for %d ms; its groups' deadlines move by that time",
                stalled_ms,
            )
            self.host.tick(self.now(), stalled_ms)
            self.schedule()

    # --- turns

    def schedule(self) -> None:
        """Schedule one turn after all sockets that are ready now have been read."""
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
        """Serve clients for a while, or carry out the host's effects when that is done.

        The sockets are polled in between: repeated heartbeats are answered then, and wait for half
        of a turn at most.
        """
        self._is_scheduled = False
        if self._is_closed or self.links is None:
            return
        if not self._has_served:
            self._has_served = bool(self.listener.inbox)
            self._turn.serve()
            if self._has_served:
                self.schedule()
                return
        self._has_served = False
        self._turn.carry_out()
        if self.listener.inbox:
            self.schedule()
        self._save_faults()
        self._leaderships.look()
        self._after_turn()

    # --- incidents

    def _save_faults(self) -> None:
        """Write files, in another thread, with the events before faults that were contained."""
        try:
            now = self.now()
            faults = self.host.recorder.take_faults(
                lambda number: self._incidents.is_due(number, now)
            )
            if faults:
                configs = self.host.view.configs
                self._loop.run_in_executor(None, self._incidents.write, faults, configs)
        except Exception as error:
            self.note(f"what was recorded cannot be written: {reason(error)}")

    def _save_before_restart(self, error: Exception) -> None:
        """Write files with the events before a fault that ends the process."""
        try:
            recorder = self.host.recorder
            faults = recorder.take_faults()
            if not faults and not isinstance(error, LogError):
                faults = recorder.recordings(reason(error))
            self._incidents.write(faults, self.host.view.configs)
        except Exception as failure:
            _log.warning("what was recorded cannot be written: %s", reason(failure))

    # --- the ports of a turn

    def serve(self) -> bool:
        """Pass waiting requests to the host; True if others still wait."""
        return self.listener.serve(serve_s(self._writing.take()))

    def write(self, writes: Sequence[Write]) -> None:
        """Write to the log, and measure how long it takes."""
        self._writing.begin()
        try:
            self._log.write(writes, sync=False)
        finally:
            self._event_metrics.flushed(self._writing.end())

    def sync(self) -> bool:
        """Start a sync of the log in its thread."""
        self.syncs.begin()
        return False

    def _synced(self) -> None:
        self._turn.synced()
        self.schedule()

    def _not_synced(self, error: OSError) -> None:
        if not self._is_closed:
            _restart(LogError(f"the log cannot be synced ({error})"))

    def send(self, node_id: int, messages: Sequence[Message]) -> None:
        """Send messages to a peer."""
        assert self.links is not None, "turns begin when there are links"
        self.links.send(node_id, messages)

    def forward(self, forward: Forward) -> None:
        """Forward a request to another node, and pass its response to the host."""
        self._tasks.spawn(self._forward(forward))

    async def _forward(self, forward: Forward) -> None:
        response = await self._forwarding.forward(forward.node_id, forward.request)
        if not self._is_closed:
            self.host.forwarded(forward.request.ticket, response)
            self.schedule()

    def answer(self, reply: Reply) -> None:
        """Send a response to a client, or to the node that forwarded the request."""
        if self._event_metrics.under_way:
            self._event_metrics.answered(reply)
        try:
            known = self.listener.answer(reply)
        except Exception as error:
            self._warnings.warn(f"a response cannot be encoded: {reason(error)}")
            self.listener.fail(reply.ticket, "its response cannot be encoded")
            return
        if not known:
            waiting = self._waiting.pop(reply.ticket, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(reply.message)

    def flush(self) -> None:
        """Send the responses of this turn."""
        self.listener.flush()

    def observe(self, fact: Fact) -> None:
        """Count a fact and pass it to the observer; a failure does not undo what happened."""
        try:
            self._dispatcher.metrics.observe(fact)
            self._group_metrics.observe(fact)
            self._observer.observe(fact)
            if self._stories is not None:
                self._stories.observe(fact)
        except Exception as error:
            self._warnings.warn(f"a {type(fact).__name__} cannot be recorded: {reason(error)}")

    def note(self, sentence: str) -> None:
        """Log a warning, unless there were many just now."""
        self._warnings.warn(sentence)

    def arm(self, deadline_ms: int | None, now: int) -> None:
        """Schedule :meth:`tick`; each call replaces the one before."""
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
    """Exit, as memory and disk may differ; Ray restarts the process, which reloads its log."""
    _log.critical("the coordinator cannot continue and restarts", exc_info=error)
    logging.shutdown()
    os._exit(1)


def serve_s(written_s: float) -> float:
    """Return how long to handle requests after a turn whose writes took ``written_s``."""
    return min(max(SERVE_S, written_s), SERVE_S_MAX)
