"""The links between coordinators, over which replicas send messages without Ray.

There is one TCP connection per pair of nodes, used both ways; the lower node id calls the higher.
The connection also shows at once which nodes are alive: a process that dies closes it.

Messages may be lost (a slow peer, a broken link): replicas send them again.
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
from actors.peers.tls import TlsContexts
from actors.serving.acceptor import Acceptor
from actors.telemetry.rate_limited_log import RateLimitedLog
from storage import peer_packing
from storage.disk.incarnation import PeerConfirmation
from storage.log import LogError
from storage.peer_frames import MessageError, unpack_messages
from storage.peer_packing import bodies, without_payload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from actors.peers.handshake import Hello, LocalNode
    from actors.peers.tls import TlsEnd, TlsSettings
    from storage.disk.incarnation import Incarnation
    from storage.messages import Message

    AddressOf = Callable[[int], Awaitable["tuple[str, int] | None"]]
    Vouch = Callable[[Incarnation], bool]

_log = logging.getLogger("rollcall.peers")

BACK_OFF_S: Final = 0.05
BACK_OFF_S_MAX: Final = 1.0
UNIDENTIFIED_MAX: Final = 128
"""The maximum of connections to the peer listener that have not identified themselves yet."""
GRACE_S: Final = 0.1
"""The minimum time that each of them gets. Beyond UNIDENTIFIED_MAX the oldest is closed after this
time; until then new connections stay in the backlog. A peer identifies itself at once."""
BACKLOG: Final = 1_024
EARLY_MAX: Final = 256
"""How many frames of a peer are kept until the handler is told that the peer can be reached."""


class PeerHandler(Protocol):
    """Handles what the links receive (the coordinator)."""

    def receive_peer(self, node_id: int, messages: Sequence[Message]) -> None:
        """Handle the messages of one frame."""

    def peer_up(self, node_id: int) -> None:
        """Handle a link to a peer that has opened."""

    def peer_down(self, node_id: int) -> None:
        """Handle a link to a peer that has closed."""

    def found_stale(self, node_id: int) -> None:
        """Handle a peer's verdict that our directory is an old copy: send nothing more."""


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
        """``address_of`` returns the address of a node's peer listener; None if unknown.

        ``vouch`` checks the directories of peers (:meth:`storage.disk.rocks.RocksLog.vouch`).
        Until all peers have checked ours, or for ``patience_ms``, nothing is sent.
        """
        self.me = me
        self._others = frozenset(others) - {me.node_id}
        self._handler = handler
        self._address_of = address_of
        self._vouch = vouch
        self._vouching = PeerConfirmation(self._others, boot_ms(), patience_ms)
        self._silence: asyncio.TimerHandle | None = None
        self._open: dict[int, Link] = {}
        self._told: set[int] = set()
        self._early: dict[int, deque[tuple[Message, ...]]] = {}
        self._unidentified: dict[Link, float] = {}  # with the time of each; the oldest first
        self._entering = 0
        self._recognized: dict[int, Link] = {}
        self._cut: frozenset[int] = frozenset()
        self._warnings = RateLimitedLog(_log)
        self.port = 0
        self._tls: TlsContexts | None = None
        self._acceptor: Acceptor | None = None
        self._callers: list[asyncio.Task[None]] = []
        self._addresses: dict[int, tuple[str, int]] = {}
        self._wake: dict[int, asyncio.Event] = {}

    # --- life

    async def open(self, host: str, port: int = 0, tls: TlsSettings | None = None) -> None:
        """Listen (0: at a free :attr:`port`) and start to call; does nothing on a single node.

        With ``tls`` all links are encrypted. Raises OSError if the address cannot be bound or the
        certificates cannot be used.
        """
        if not self._others:
            return
        loop = asyncio.get_running_loop()
        self._tls = None if tls is None else TlsContexts(tls)
        self._acceptor = Acceptor(self, lambda _: Link(self, tls=self._end()))
        self.port = await self._acceptor.open(host, port, BACKLOG)
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
        """The nodes with an open link."""
        return tuple(sorted(self._open))

    @property
    def versions(self) -> dict[int, int]:
        """The version of the peer protocol that each open link uses, by node id."""
        return {node_id: self._open[node_id].version.number for node_id in self.linked}

    # --- messages

    def send(self, node_id: int, messages: Sequence[Message]) -> None:
        """Send all messages of one turn; they are lost if there is no link.

        A slow peer gets no records; replicas send these again later. A message that is too large,
        or that the version of the link does not have, is dropped, and the link stays.
        """
        link = self._open.get(node_id)
        if link is None or not messages or node_id in self._cut or node_id not in self._told:
            return
        if not link.version.has_all_kinds:
            messages = link.version.known(messages)
        if not link.takes(records=True):
            small = without_payload(messages) if link.takes(records=False) else []
            if len(small) < len(messages):
                self._warnings.warn(
                    f"node {node_id} receives too slowly: "
                    f"{len(messages) - len(small)} messages were dropped and will be sent again"
                )
            messages = small
        for body in bodies(messages):
            if len(body) > peer_packing.BODY_BYTES_MAX:
                self._warnings.warn(
                    f"a message of {len(body)} bytes to node {node_id} was dropped: the limit is"
                    f" {peer_packing.BODY_BYTES_MAX} bytes"
                )
            else:
                link.send(body)

    # --- for drills

    def cut(self, node_ids: Iterable[int]) -> None:
        """Drop all messages to and from these nodes, as a broken network does.

        A second call replaces the first.
        """
        self._cut = frozenset(node_ids)

    def mend(self) -> None:
        """End :meth:`cut`."""
        self._cut = frozenset()

    # --- calling

    def _end(self, host: str | None = None) -> TlsEnd | None:
        """Return the TLS of a new link: to a host that is called, or of one that calls us."""
        if self._tls is None:
            return None
        return self._tls.callee() if host is None else self._tls.caller(host)

    def moved(self, node_id: int, host: str, port: int) -> None:
        """Store the address of a node's peer listener, and call it at once."""
        self._addresses[node_id] = (host, port)
        if node_id in self._wake:
            self._wake[node_id].set()

    async def _keep_calling(self, node_id: int) -> None:
        """Keep a link to a node with a higher id open."""
        wake = self._wake[node_id] = asyncio.Event()
        wait_s = BACK_OFF_S
        while True:
            wake.clear()
            address = self._addresses.pop(node_id, None) or await self._ask(node_id, wake)
            is_allowed = address is not None and node_id not in self._cut
            if address is not None and is_allowed and await self._call(node_id, *address):
                wait_s = BACK_OFF_S
                self._addresses.setdefault(node_id, address)  # maybe only the link broke
            with suppress(TimeoutError):
                pause_s = wait_s * random.uniform(0.75, 1.0)
                await asyncio.wait_for(wake.wait(), pause_s)
            wait_s = min(2 * wait_s, BACK_OFF_S_MAX)

    async def _ask(self, node_id: int, wake: asyncio.Event) -> tuple[str, int] | None:
        """Ask for a node's address, unless the node announces it meanwhile."""
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
        """Connect and wait until the link ends; return whether it was ever open."""
        loop = asyncio.get_running_loop()
        link: Link | None = None
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(HANDSHAKE_S):
                _, link = await loop.create_connection(
                    lambda: Link(self, node_id, self._end(host)), host, port
                )
        if link is None:
            return False
        try:
            await link.ended
        finally:
            link.close()
        return link.was_open

    # --- who is accepted (:class:`actors.serving.acceptor.ConnectionGate`)

    def wait_s(self) -> float:
        """Return how long to accept nothing: unidentified connections are limited."""
        if len(self._unidentified) + self._entering < UNIDENTIFIED_MAX:
            return 0.0
        oldest = next(iter(self._unidentified), None)
        if oldest is None:
            return GRACE_S
        wait_s = self._unidentified[oldest] + GRACE_S - asyncio.get_running_loop().time()
        if wait_s > 0:
            return wait_s
        del self._unidentified[oldest]
        oldest.refuse(f"it did not identify itself while {UNIDENTIFIED_MAX} others wait")
        return 0.0

    def enter(self, address: str) -> bool:  # noqa: ARG002 - as ConnectionGate has it
        """Accept a connection."""
        self._entering += 1
        return True

    def leave(self, address: str) -> None:  # noqa: ARG002 - as ConnectionGate has it
        """Uncount a connection that failed to open."""
        self._entering -= 1

    # --- calls from links

    def appeared(self, link: Link) -> None:
        """Count a connection whose caller has not identified itself yet."""
        if not link.is_caller:
            self._entering -= 1
            self._unidentified[link] = asyncio.get_running_loop().time()

    def accepts(self, hello: Hello, link: Link) -> None:
        """Refuse an unknown node; else move the link from the unidentified ones to its node's slot.

        Each node has one slot; the newest caller takes it.
        """
        if hello.node_id not in self._others:
            raise RefusedError(f"node {hello.node_id} does not belong to this cluster")
        if link.is_caller:
            return
        self._unidentified.pop(link, None)
        before = self._recognized.get(hello.node_id)
        self._recognized[hello.node_id] = link
        if before is not None:
            before.close()

    def opened(self, link: Link) -> None:
        """Add a link, and close an older one of the same node."""
        node_id = link.node_id
        self._not_recognized(link)
        before = self._open.pop(node_id, None)
        if before is not None:
            before.close()
            self._tell_down(node_id)
        self._open[node_id] = link
        by = f" by {link.tls_version}" if link.tls_version else ""
        number = link.version.number
        _log.info("linked to node %d at %s, version %d%s", node_id, link.address, number, by)
        self._vouching.accepted(node_id)
        if self._vouching.is_over(boot_ms()):
            self._tell_all()

    def vouches(self, link: Link) -> bool:
        """Check a peer's directory, and store the result."""
        try:
            return self._vouch(link.incarnation)
        except LogError as error:
            raise RefusedError(f"the state of its directory cannot be stored ({error})") from error

    def is_stale(self, link: Link) -> None:
        """Tell the handler that a peer considers our directory an old copy."""
        self._handler.found_stale(link.node_id)

    def _tell_all(self) -> None:
        """Tell the handler which peers can be reached, once they have checked our directory."""
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
        """Pass messages from a peer to the handler."""
        node_id = link.node_id
        if node_id in self._cut or self._open.get(node_id) is not link:
            return
        try:
            messages = unpack_messages(frame)
        except MessageError as error:
            raise RefusedError(str(error)) from error
        if node_id in self._told:
            self._handler.receive_peer(node_id, messages)
        else:  # leaders announce themselves only once
            self._early.setdefault(node_id, deque(maxlen=EARLY_MAX)).append(messages)

    def refused(self, link: Link, why: str) -> None:
        """Log who was refused, and why."""
        who = f"node {link.node_id}" if link.is_open or link.is_caller else "a caller"
        self._warnings.warn(f"refused {who} at {link.address}: {why}")

    def closed(self, link: Link) -> None:
        """Tell the handler at once that a link has ended."""
        self._unidentified.pop(link, None)
        self._not_recognized(link)
        if self._open.get(link.node_id) is link:
            del self._open[link.node_id]
            _log.info("the link to node %d is gone", link.node_id)
            self._tell_down(link.node_id)

    def _not_recognized(self, link: Link) -> None:
        if self._recognized.get(link.node_id) is link:
            del self._recognized[link.node_id]
