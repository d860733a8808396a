"""The coordinators' own links: what replicas say to each other never crosses a Ray call.

There is one TCP connection per pair of nodes, used both ways; the lower node id calls the higher.
Who is there is told at once by the connection itself: a process that dies closes it.

Messages may be lost (a slow peer, a link that breaks): replicas send again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from actors.clock import boot_ms
from actors.peers.handshake import RefusedError
from actors.peers.link import HANDSHAKE_S, Link
from actors.serving.acceptor import Acceptor
from actors.telemetry.rate_limited_log import RateLimitedLog
from storage import peer_packing
from storage.disk.incarnation import Vouching
from storage.log import LogError
from storage.peer_frames import MessageError, unpack_messages
from storage.peer_packing import bodies, without_payload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from actors.peers.handshake import Hello, LocalNode
    from storage.disk.incarnation import Incarnation
    from storage.messages import Message

    AddressOf = Callable[[int], Awaitable["tuple[str, int] | None"]]
    Vouch = Callable[[Incarnation], bool]

_log = logging.getLogger("rollcall.peers")

BACK_OFF_S: Final = 0.05
BACK_OFF_S_MAX: Final = 1.0
UNIDENTIFIED_MAX: Final = 128
"""So many connections may be open at the peers port that have not said yet who they are."""
GRACE_S: Final = 0.1
"""The least time that each of them has for that. Beyond UNIDENTIFIED_MAX the oldest makes room once
this is over; until then the next ones stay in the backlog. A peer says it at once."""
BACKLOG: Final = 1_024
EARLY_MAX: Final = 256
"""So many frames of a peer are kept until the handler is told that the peer can be reached."""


class PeerHandler(Protocol):
    """What the links need of the coordinator behind them."""

    def receive_peer(self, node_id: int, messages: Sequence[Message]) -> None:
        """Take what a peer said in one frame."""

    def peer_up(self, node_id: int) -> None:
        """Take notice that a peer can be reached."""

    def peer_down(self, node_id: int) -> None:
        """Take notice that a peer can not be reached any more."""

    def found_stale(self, node_id: int) -> None:
        """Learn from a peer that our directory is a copy: nothing more may be said for it."""


class Peers:
    """All links of one coordinator (:class:`actors.peers.link.Links`)."""

    def __init__(  # noqa: PLR0913 - everything around it is handed in here
        self,
        me: LocalNode,
        others: Iterable[int],
        handler: PeerHandler,
        address_of: AddressOf,
        *,
        vouch: Vouch = lambda _: True,
        patience_ms: int = 0,
    ) -> None:
        """``address_of`` tells where a node's peers port is now; None when nobody knows.

        ``vouch`` judges the directories of peers (:meth:`storage.disk.rocks.RocksLog.vouch`).
        Until all peers have judged ours, or for ``patience_ms``, nothing is said to anybody.
        """
        self.me = me
        self._others = frozenset(others) - {me.node_id}
        self._handler = handler
        self._address_of = address_of
        self._vouch = vouch
        self._vouching = Vouching(self._others, boot_ms(), patience_ms)
        self._silence: asyncio.TimerHandle | None = None
        self._open: dict[int, Link] = {}
        self._told: set[int] = set()
        self._early: dict[int, deque[tuple[Message, ...]]] = {}
        self._unidentified: dict[Link, float] = {}  # and when each came; the oldest first
        self._entering = 0
        self._recognized: dict[int, Link] = {}
        self._cut: frozenset[int] = frozenset()
        self._warnings = RateLimitedLog(_log)
        self.port = 0
        self._acceptor: Acceptor | None = None
        self._callers: list[asyncio.Task[None]] = []
        self._addresses: dict[int, tuple[str, int]] = {}
        self._wake: dict[int, asyncio.Event] = {}

    # --- life

    async def open(self, host: str) -> None:
        """Listen at a free port (:attr:`port`) and begin to call; nothing to do when alone."""
        if not self._others:
            return
        loop = asyncio.get_running_loop()
        self._acceptor = Acceptor(self, lambda _: Link(self))
        self.port = await self._acceptor.open(host, 0, BACKLOG)
        wait_s = max(self._vouching.until_ms - boot_ms(), 0) / 1000
        self._silence = loop.call_later(wait_s, self._tell_all)
        for node_id in sorted(self._others):
            if node_id > self.me.node_id:
                self._callers.append(loop.create_task(self._keep_calling(node_id)))

    def close(self) -> None:
        """Close everything; nothing more is told to the handler."""
        for task in self._callers:
            task.cancel()
        if self._acceptor is not None:
            self._acceptor.close()
        if self._silence is not None:
            self._silence.cancel()
        links = [*self._open.values(), *self._recognized.values(), *self._unidentified]
        self._open.clear()
        self._told.clear()
        for link in links:
            link.close()

    @property
    def linked(self) -> tuple[int, ...]:
        """The nodes that can be reached now."""
        return tuple(sorted(self._open))

    # --- messages

    def send(self, node_id: int, messages: Sequence[Message]) -> None:
        """Send all messages of one turn; they are lost when there is no link.

        A peer that takes too little is sent no records; these are sent again later. One message
        that is too large for any peer is dropped, and the link stays.
        """
        link = self._open.get(node_id)
        if link is None or not messages or node_id in self._cut or node_id not in self._told:
            return
        if not link.takes(records=True):
            small = without_payload(messages) if link.takes(records=False) else []
            if len(small) < len(messages):
                self._warnings.warn(
                    f"node {node_id} takes too little of what we send: "
                    f"{len(messages) - len(small)} messages were dropped, to be sent again"
                )
            messages = small
        for body in bodies(messages):
            if len(body) > peer_packing.BODY_BYTES_MAX:
                self._warnings.warn(
                    f"a message of {len(body)} bytes to node {node_id} was dropped: it is larger"
                    f" than {peer_packing.BODY_BYTES_MAX} bytes, the most that a peer takes"
                )
            else:
                link.send(body)

    # --- for drills

    def cut(self, node_ids: Iterable[int]) -> None:
        """Be a broken network: nothing reaches these nodes or comes from them, and nobody is told.

        A second call replaces the first.
        """
        self._cut = frozenset(node_ids)

    def mend(self) -> None:
        """Be a network again."""
        self._cut = frozenset()

    # --- calling

    def moved(self, node_id: int, host: str, port: int) -> None:
        """Learn where a node's peers port is, from itself: call it at once."""
        self._addresses[node_id] = (host, port)
        if node_id in self._wake:
            self._wake[node_id].set()

    async def _keep_calling(self, node_id: int) -> None:
        """Have a link to a node with a higher id, for as long as we live."""
        wake = self._wake[node_id] = asyncio.Event()
        wait_s = BACK_OFF_S
        while True:
            wake.clear()
            address = self._addresses.pop(node_id, None) or await self._ask(node_id, wake)
            is_allowed = address is not None and node_id not in self._cut
            if address is not None and is_allowed and await self._call(node_id, *address):
                wait_s = BACK_OFF_S
                self._addresses.setdefault(node_id, address)  # perhaps only the link broke
            with suppress(TimeoutError):
                pause_s = wait_s * random.uniform(0.75, 1.0)
                await asyncio.wait_for(wake.wait(), pause_s)
            wait_s = min(2 * wait_s, BACK_OFF_S_MAX)

    async def _ask(self, node_id: int, wake: asyncio.Event) -> tuple[str, int] | None:
        """Ask where a node is, unless it tells so itself meanwhile."""
        loop = asyncio.get_running_loop()
        asking = loop.create_task(self._address_told(node_id))
        waking = loop.create_task(wake.wait())
        try:
            await asyncio.wait({asking, waking}, return_when=asyncio.FIRST_COMPLETED)
            answered = asking.result() if asking.done() else None
        finally:
            asking.cancel()
            waking.cancel()
        return self._addresses.pop(node_id, None) or answered

    async def _address_told(self, node_id: int) -> tuple[str, int] | None:
        return await self._address_of(node_id)

    async def _call(self, node_id: int, host: str, port: int) -> bool:
        """Connect and stay until the link ends; say whether it ever was open."""
        loop = asyncio.get_running_loop()
        link: Link | None = None
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(HANDSHAKE_S):
                _, link = await loop.create_connection(lambda: Link(self, node_id), host, port)
        if link is None:
            return False
        try:
            await link.ended
        finally:
            link.close()
        return link.was_open

    # --- who is accepted (:class:`actors.serving.acceptor.ConnectionGate`)

    def wait_s(self) -> float:
        """Accept the next unless there are too many strangers, none of which has had its time."""
        if len(self._unidentified) + self._entering < UNIDENTIFIED_MAX:
            return 0.0
        oldest = next(iter(self._unidentified), None)
        if oldest is None:
            return GRACE_S
        wait_s = self._unidentified[oldest] + GRACE_S - asyncio.get_running_loop().time()
        if wait_s > 0:
            return wait_s
        del self._unidentified[oldest]
        oldest.refuse(f"it does not say who it is and {UNIDENTIFIED_MAX} others wait to")
        return 0.0

    def enter(self, address: str) -> bool:  # noqa: ARG002 - as ConnectionGate has it
        """Accept a connection."""
        self._entering += 1
        return True

    def leave(self, address: str) -> None:  # noqa: ARG002 - as ConnectionGate has it
        """Forget a connection that never came to be."""
        self._entering -= 1

    # --- what links tell

    def appeared(self, link: Link) -> None:
        """Count a connection whose caller has not said yet who it is."""
        if not link.is_caller:
            self._entering -= 1
            self._unidentified[link] = asyncio.get_running_loop().time()

    def accepts(self, hello: Hello, link: Link) -> None:
        """Refuse a node that is none of ours; else give the link a place that no stranger has.

        There is one for each node: the newest caller takes it.
        """
        if hello.node_id not in self._others:
            raise RefusedError(f"no node {hello.node_id} belongs to this cluster")
        if link.is_caller:
            return
        self._unidentified.pop(link, None)
        before = self._recognized.get(hello.node_id)
        self._recognized[hello.node_id] = link
        if before is not None:
            before.close()

    def opened(self, link: Link) -> None:
        """Take a link; an older one of the same node is a thing of the past."""
        node_id = link.node_id
        self._not_recognized(link)
        before = self._open.pop(node_id, None)
        if before is not None:
            before.close()
            self._tell_down(node_id)
        self._open[node_id] = link
        _log.info("linked to node %d at %s", node_id, link.address)
        self._vouching.accepted(node_id)
        if self._vouching.is_over(boot_ms()):
            self._tell_all()

    def vouches(self, link: Link) -> bool:
        """Judge a peer's directory, and remember that."""
        try:
            return self._vouch(link.incarnation)
        except LogError as error:
            raise RefusedError(
                f"what is known of its directory can not be kept ({error})"
            ) from error

    def is_stale(self, link: Link) -> None:
        """Tell the handler that a peer takes our directory for a copy."""
        self._handler.found_stale(link.node_id)

    def _tell_all(self) -> None:
        """Let the handler know which peers can be reached: they have judged our directory."""
        for node_id in sorted(self._open.keys() - self._told):
            self._told.add(node_id)
            self._handler.peer_up(node_id)
            for messages in self._early.pop(node_id, ()):
                self._handler.receive_peer(node_id, messages)

    def _tell_down(self, node_id: int) -> None:
        self._early.pop(node_id, None)
        if node_id in self._told:
            self._told.discard(node_id)
            self._handler.peer_down(node_id)

    def received(self, link: Link, frame: bytes) -> None:
        """Hand on what a peer said."""
        node_id = link.node_id
        if node_id in self._cut or self._open.get(node_id) is not link:
            return
        try:
            messages = unpack_messages(frame)
        except MessageError as error:
            raise RefusedError(str(error)) from error
        if node_id in self._told:
            self._handler.receive_peer(node_id, messages)
        else:  # who leads what is said only once
            self._early.setdefault(node_id, deque(maxlen=EARLY_MAX)).append(messages)

    def refused(self, link: Link, why: str) -> None:
        """Say in one sentence who was refused."""
        who = f"node {link.node_id}" if link.is_open or link.is_caller else "a caller"
        self._warnings.warn(f"refused {who} at {link.address}: {why}")

    def closed(self, link: Link) -> None:
        """Tell the handler at once that a peer is gone."""
        self._unidentified.pop(link, None)
        self._not_recognized(link)
        if self._open.get(link.node_id) is link:
            del self._open[link.node_id]
            _log.info("the link to node %d is gone", link.node_id)
            self._tell_down(link.node_id)

    def _not_recognized(self, link: Link) -> None:
        if self._recognized.get(link.node_id) is link:
            del self._recognized[link.node_id]
