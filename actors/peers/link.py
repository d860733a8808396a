"""One TCP connection between two coordinators: frames, the handshake, a bounded buffer."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, cast

from actors.peers.frame_authentication import SIGNED_BYTES_MAX, FrameSigner, FrameVerifier
from actors.peers.handshake import (
    CALLEE,
    CALLER,
    CURRENT,
    HELLO_BYTES_MAX,
    MAGIC,
    NEVER_STARTED,
    NONCE_BYTES,
    STALE,
    RefusedError,
    check_proof,
    frame_key,
    hello,
    proof,
    read_hello,
)
from actors.peers.tls import SECURITY_PROTOCOL, uses_tls
from actors.peers.versions import PEER_VERSIONS
from protocol.listeners import host_and_port
from storage.peer_frames import MessageError
from storage.peer_packing import BODY_BYTES_MAX, FRAME_BYTES_MAX, FrameReader, framed

if TYPE_CHECKING:
    from actors.peers.handshake import Hello, LocalNode
    from actors.peers.tls import TlsEnd

BUFFER_BYTES_MAX: Final = 16 << 20
"""With more unsent bytes than this, no more records are sent; replicas send them again later.
Messages without records are sent up to twice this limit."""

HANDSHAKE_S: Final = 5.0
"""How long the handshake of a connection may take."""

UNACKNOWLEDGED_MS: Final = 5_000
"""The kernel closes the link if sent bytes are not acknowledged for this long."""


class Links(Protocol):
    """The owner of links (:class:`actors.peers.peers.Peers`)."""

    me: LocalNode

    def appeared(self, link: Link) -> None:
        """Count a new connection whose other end has not identified itself yet."""

    def accepts(self, hello: Hello, link: Link) -> None:
        """Accept a signed hello; raises :class:`RefusedError` if it is not from our nodes."""

    def vouches(self, link: Link) -> bool:
        """Whether the other end's directory may be its newest state.

        The other end has been authenticated. Raises :class:`RefusedError` if that is unknown.
        """

    def is_stale(self, link: Link) -> None:
        """Handle the other end's verdict that our directory is an old copy."""

    def opened(self, link: Link) -> None:
        """Add a link whose handshake is complete."""

    def received(self, link: Link, frame: bytes) -> None:
        """Handle a frame from a peer; raises :class:`RefusedError` if it is invalid."""

    def refused(self, link: Link, why: str) -> None:
        """Handle a connection that is closed because of the other end."""

    def closed(self, link: Link) -> None:
        """Handle a connection that has ended."""


class Link(asyncio.Protocol):
    """One end of a link. ``node_id`` is the node that we called; -1 until a caller is known."""

    def __init__(self, links: Links, node_id: int = -1, tls: TlsEnd | None = None) -> None:
        self.node_id = node_id
        self.directory_id = ""
        self.version = PEER_VERSIONS[-1]
        self.address = "unknown"
        self.is_caller = node_id >= 0
        self.ended = asyncio.get_running_loop().create_future()
        self.is_open = self.was_open = False
        self._links = links
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReader(HELLO_BYTES_MAX, HELLO_BYTES_MAX)
        self._bodies = FrameReader(HELLO_BYTES_MAX, HELLO_BYTES_MAX)
        self._my_hello = b""
        self._their_hello = b""
        self._signer: FrameSigner | None = None  # from our proof on
        self._verifier: FrameVerifier | None = None  # from their proof on
        self.incarnation = NEVER_STARTED
        self._handshake_timer: asyncio.TimerHandle | None = None

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        # A threshold that is never reached: we check the buffer's size ourselves.
        self._transport.set_write_buffer_limits(high=2 * (BODY_BYTES_MAX + 2 * BUFFER_BYTES_MAX))
        name = transport.get_extra_info("peername")
        if name:
            self.address = host_and_port(*name[:2])
        _set_options(transport.get_extra_info("socket"))
        loop = asyncio.get_running_loop()
        self._handshake_timer = loop.call_later(HANDSHAKE_S, self._handshake_timed_out)
        self._links.appeared(self)
        if self._tls is not None:
            self._transport.write(self._tls.outgoing())
        elif self.is_caller:
            self._say_hello()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's shape
        """Clean up after the connection has ended."""
        self._transport = None
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self._links.closed(self)
        self.is_open = False
        if not self.ended.done():
            self.ended.set_result(None)

    def eof_received(self) -> None:
        """Report the end at once; ``connection_lost`` comes a turn of the event loop later."""
        self._links.closed(self)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        try:
            for frame in self._frames.feed(self._decrypted(data)):
                if self._transport is None:
                    return
                if self._verifier is None:
                    self._handshake(frame)
                else:
                    self._take_bodies(self._verifier.verified(frame))
        except (RefusedError, MessageError) as error:
            self.refuse(str(error))

    # --- our side

    @property
    def tls_version(self) -> str:
        """The version of TLS, or "" without TLS."""
        return "" if self._tls is None else self._tls.version

    @property
    def waiting_bytes(self) -> int:
        """The bytes that the other end has not received yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def takes(self, *, records: bool) -> bool:
        """Whether the peer is fast enough to be sent more, with records or without."""
        return self.waiting_bytes <= (BUFFER_BYTES_MAX if records else 2 * BUFFER_BYTES_MAX)

    def send(self, body: bytes) -> None:
        """Send one body, in as many frames as it takes."""
        if self._transport is None:
            return
        data = framed(body)
        if self._signer is not None:
            data = self._signer.signed(data)
        self._transport.write(data if self._tls is None else self._tls.encrypted(data))

    def refuse(self, why: str) -> None:
        """Close because of the other end."""
        if self._transport is not None:
            self._links.refused(self, why)
            # Not aborted, so that the other end gets our hello and knows why.
            self._transport.close()
            self._transport = None

    def close(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    # --- TLS

    def _decrypted(self, data: bytes) -> bytes:
        """Return the plain bytes of received ones, and go on with the handshake of TLS."""
        tls = self._tls
        if tls is None:
            if not self._their_hello and uses_tls(data):
                raise RefusedError(f"it uses TLS, and {SECURITY_PROTOCOL} is PLAINTEXT here")
            return data
        try:
            return tls.decrypted(data)
        finally:
            if self._transport is not None and (answer := tls.outgoing()):
                self._transport.write(answer)
            if self.is_caller and tls.is_established and not self._my_hello:
                self._say_hello()

    # --- the handshake

    def _say_hello(self) -> None:
        self._my_hello = hello(self._links.me, self.node_id, os.urandom(NONCE_BYTES))
        self.send(self._my_hello)

    def _handshake(self, frame: bytes) -> None:
        if not self._their_hello:
            self._take_hello(frame)
        else:
            self._take_proof(frame)

    def _take_bodies(self, data: bytes) -> None:
        for body in self._bodies.feed(data):
            if self._transport is None:
                return
            if self.is_open:
                self._links.received(self, body)
            else:
                self._take_verdict(body)

    def _take_hello(self, frame: bytes) -> None:
        links = self._links
        if not self.is_caller:
            self._answer_hello(frame)
            return
        found = read_hello(frame, links.me)
        if found.node_id != self.node_id:
            raise RefusedError(f"it is node {found.node_id} and not node {self.node_id}")
        links.accepts(found, self)
        self._know(found, frame)
        self._say_proof(CALLER)

    def _answer_hello(self, frame: bytes) -> None:
        """As the callee: send our hello, also to a peer that we refuse."""
        links = self._links
        try:
            found = read_hello(frame, links.me)
        except RefusedError:
            if MAGIC in frame:
                self._say_hello()
            raise
        links.accepts(found, self)
        self.node_id = found.node_id
        self._know(found, frame)
        self._say_hello()

    def _know(self, found: Hello, frame: bytes) -> None:
        self.directory_id, self.incarnation = found.directory_id, found.incarnation
        self.version = found.version
        self._their_hello = frame

    def _take_proof(self, frame: bytes) -> None:
        role = CALLEE if self.is_caller else CALLER
        check_proof(frame, self._proof(role))
        self._verifier = FrameVerifier(self._frame_key(role))
        if not self.is_caller:
            self._say_proof(CALLEE)
        if not self._links.vouches(self):
            self.send(STALE)
            raise RefusedError("its directory is a copy, and we have seen a later state of it")
        self.send(CURRENT)

    def _take_verdict(self, frame: bytes) -> None:
        if frame == STALE:
            self._links.is_stale(self)
            raise RefusedError("it has seen a later state of our directory")
        if frame != CURRENT:
            raise RefusedError("it sent no verdict on our directory")
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self._frames.frame_bytes_max = self._frames.body_bytes_max = SIGNED_BYTES_MAX
        self._bodies.frame_bytes_max = FRAME_BYTES_MAX
        self._bodies.body_bytes_max = BODY_BYTES_MAX
        self.is_open = self.was_open = True
        self._links.opened(self)

    def _say_proof(self, role: bytes) -> None:
        self.send(self._proof(role))
        self._signer = FrameSigner(self._frame_key(role))

    def _proof(self, role: bytes) -> bytes:
        return proof(self._links.me.secret, role, *self._hellos())

    def _frame_key(self, role: bytes) -> bytes:
        return frame_key(self._links.me.secret, role, *self._hellos(), self.version.number)

    def _hellos(self) -> tuple[bytes, bytes]:
        """Return the caller's hello and the callee's."""
        mine, theirs = self._my_hello, self._their_hello
        return (mine, theirs) if self.is_caller else (theirs, mine)

    def _handshake_timed_out(self) -> None:
        self.refuse(f"it did not identify itself within {HANDSHAKE_S:g} s")


def _set_options(connection: socket.socket | None) -> None:
    """Disable Nagle's algorithm, and detect a machine that has disappeared."""
    if connection is None:
        return
    with suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
