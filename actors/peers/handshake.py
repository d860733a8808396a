"""The handshake by which two coordinators authenticate each other, without I/O.

The node that connects is the *caller*, the other one the *callee*::

    caller                                callee
      hello (own id, wanted id, a nonce)       ->
      <-                                  hello
      proof: HMAC(secret, "caller", both hellos)  ->
      <-                                  proof: HMAC(secret, "callee", both hellos)
      <-                                  verdict: is the caller's directory its newest state?
      verdict on the callee's directory   ->
      peer messages, both ways

A proof covers both hellos, nonces included, and the role: it can neither be replayed on another
link nor reflected to its sender. The secret itself is never sent. What an end sends after its proof
is authenticated frame by frame (:mod:`actors.peers.frame_authentication`), by a key of its own.

A verdict is about the incarnation of the directory in the hello
(:mod:`storage.disk.incarnation`); if it is an old copy, the link is closed before any message.

A hello ends with a signature by the secret. It does not replace the proof, as it can be replayed;
it identifies peers in the first frame, so that other connections cannot take their slots.

A hello also names the versions of the protocol that its sender speaks, and both ends use the newest
common one (:mod:`actors.peers.versions`). As a proof covers both hellos, nobody in between can make
them use an older one. A later version may add fields to a hello, before its signature: here they
are not read.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeGuard

import msgpack

from actors.peers.versions import (
    NAMED_FROM,
    PEER_VERSIONS,
    PeerVersion,
    VersionRange,
    disagreement,
    newest_common,
)
from storage.disk.incarnation import TOKENS_MAX, Incarnation

if TYPE_CHECKING:
    from collections.abc import Sequence

NEVER_STARTED: Final = Incarnation("")

MAGIC: Final = b"rollcall-peer"
NONCE_BYTES: Final = 32
HELLO_BYTES_MAX: Final = 1_024

CURRENT: Final = b"current"
STALE: Final = b"stale"
"""The two verdicts on a directory."""

CALLER: Final = b"caller"
CALLEE: Final = b"callee"


class RefusedError(Exception):
    """The other end is not a valid peer; the message is one sentence without a full stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    """This coordinator's identity, and the versions that it speaks. The secret is the cluster's."""

    cluster_id: str
    node_id: int
    directory_id: str
    secret: bytes
    incarnation: Incarnation = NEVER_STARTED
    versions: tuple[PeerVersion, ...] = PEER_VERSIONS

    def __repr__(self) -> str:
        """Return everything but the secret."""
        return f"LocalNode(node {self.node_id}, directory {self.directory_id} of {self.cluster_id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A peer's identity; ``wanted`` is the node that it means to connect to.

    ``version`` is the newest one that both ends speak.
    """

    version: PeerVersion
    cluster_id: str
    node_id: int
    directory_id: str
    wanted: int
    nonce: bytes
    incarnation: Incarnation


def hello(me: LocalNode, wanted: int, nonce: bytes) -> bytes:
    """Encode the first frame."""
    start = (me.incarnation.number, me.incarnation.tokens)
    spoken = VersionRange.of(me.versions)
    rows = (
        MAGIC, spoken.newest, spoken.oldest, me.cluster_id, me.node_id, me.directory_id, wanted,
        nonce, *start,
    )  # fmt: skip
    packed: bytes = msgpack.packb((*rows, _signature(me.secret, rows)))
    return packed


def _signature(secret: bytes, rows: Sequence[object]) -> bytes:
    """Sign the rows of a hello."""
    return hmac.digest(secret, b"hello" + msgpack.packb(rows), hashlib.sha256)


def read_hello(frame: bytes, me: LocalNode) -> Hello:
    """Decode the other end's first frame; raises :class:`RefusedError` if it is not a peer."""
    try:
        magic, newest, *rest = msgpack.unpackb(frame)
    except (ValueError, TypeError, msgpack.UnpackException):
        magic, newest, rest = None, None, []
    if magic != MAGIC or not isinstance(newest, int):
        raise RefusedError("it does not use the peer protocol")
    oldest = newest
    if newest >= NAMED_FROM:
        oldest, *rest = rest or [None]
    if not isinstance(oldest, int):
        raise RefusedError("its hello is incomplete")
    spoken = VersionRange(oldest, newest)
    version = newest_common(me.versions, spoken)
    if version is None:
        raise RefusedError(disagreement(me.versions, spoken))
    signature: object = rest[-1] if rest else b""
    rows = (magic, newest, oldest, *rest[:-1])
    found = _rest(version, rest[:-1])
    if found.cluster_id != me.cluster_id:
        raise RefusedError(f"it belongs to cluster {found.cluster_id!r} and not to {me.cluster_id}")
    if found.wanted != me.node_id:
        raise RefusedError(f"it looks for node {found.wanted} and this is node {me.node_id}")
    check_proof(signature if isinstance(signature, bytes) else b"", _signature(me.secret, rows))
    return found


def _rest(version: PeerVersion, rest: list[object]) -> Hello:
    match rest:
        case [
            str(cluster_id),
            int(node_id),
            str(directory_id),
            int(wanted),
            bytes(nonce),
            int(number),
            [*tokens],
            *_,
        ] if len(nonce) == NONCE_BYTES and _are_tokens(tokens):
            return Hello(
                version=version,
                cluster_id=cluster_id,
                node_id=node_id,
                directory_id=directory_id,
                wanted=wanted,
                nonce=nonce,
                incarnation=Incarnation(directory_id, number, tuple(tokens)),
            )
    raise RefusedError("its hello is incomplete")


def _are_tokens(tokens: list[object]) -> TypeGuard[list[str]]:
    return len(tokens) <= TOKENS_MAX and all(isinstance(token, str) for token in tokens)


def proof(secret: bytes, role: bytes, caller_hello: bytes, callee_hello: bytes) -> bytes:
    """Return a proof of knowing the secret, valid for this link and this role only."""
    parts = (role, caller_hello, callee_hello)
    return hmac.digest(secret, b"".join(map(_with_length, parts)), hashlib.sha256)


def check_proof(given: bytes, wanted: bytes) -> None:
    """Compare two proofs; raises :class:`RefusedError`."""
    if not hmac.compare_digest(given, wanted):
        raise RefusedError("it does not know the cluster's secret")


def frame_key(
    secret: bytes, role: bytes, caller_hello: bytes, callee_hello: bytes, version: int
) -> bytes:
    """Return the key for the frames that the end with this role sends on a link of this version."""
    salt = hashlib.sha256(_with_length(caller_hello) + _with_length(callee_hello)).digest()
    return hkdf(secret, salt, b"frames of the %b, version %d" % (role, version))


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """Return a key of 32 bytes by HKDF with SHA-256 (RFC 5869): its first block of output."""
    extracted = hmac.digest(salt, secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def _with_length(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part
