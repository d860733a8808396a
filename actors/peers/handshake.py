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
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeGuard

import msgpack

from storage.disk.incarnation import TOKENS_MAX, Incarnation

if TYPE_CHECKING:
    from collections.abc import Sequence

PROTOCOL_VERSION: Final = 4
"""The version of the peer protocol; peers with different versions refuse each other.

4: frames after the proofs are authenticated.
"""

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
    """This coordinator's identity. The secret is the cluster's."""

    cluster_id: str
    node_id: int
    directory_id: str
    secret: bytes
    incarnation: Incarnation = NEVER_STARTED

    def __repr__(self) -> str:
        """Return everything but the secret."""
        return f"LocalNode(node {self.node_id}, directory {self.directory_id} of {self.cluster_id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A peer's identity; ``wanted`` is the node that it means to connect to."""

    version: int
    cluster_id: str
    node_id: int
    directory_id: str
    wanted: int
    nonce: bytes
    incarnation: Incarnation


def hello(me: LocalNode, wanted: int, nonce: bytes) -> bytes:
    """Encode the first frame."""
    start = (me.incarnation.number, me.incarnation.tokens)
    rows = (
        MAGIC, PROTOCOL_VERSION, me.cluster_id, me.node_id, me.directory_id, wanted, nonce, *start
    )  # fmt: skip
    packed: bytes = msgpack.packb((*rows, _signature(me.secret, rows)))
    return packed


def _signature(secret: bytes, rows: Sequence[object]) -> bytes:
    """Sign the rows of a hello."""
    return hmac.digest(secret, b"hello" + msgpack.packb(rows), hashlib.sha256)


def read_hello(frame: bytes, me: LocalNode) -> Hello:
    """Decode the other end's first frame; raises :class:`RefusedError` if it is not a peer."""
    try:
        magic, version, *rest = msgpack.unpackb(frame)
    except (ValueError, TypeError, msgpack.UnpackException):
        magic, version, rest = None, None, []
    if magic != MAGIC or not isinstance(version, int):
        raise RefusedError("it does not use the peer protocol")
    if version != PROTOCOL_VERSION:
        raise RefusedError(
            f"it uses version {version} of the peer protocol, and we use {PROTOCOL_VERSION}"
        )
    signature: object = rest[-1] if rest else b""
    rows = (magic, version, *rest[:-1])
    found = _rest(version, rest[:-1])
    if found.cluster_id != me.cluster_id:
        raise RefusedError(f"it belongs to cluster {found.cluster_id!r} and not to {me.cluster_id}")
    if found.wanted != me.node_id:
        raise RefusedError(f"it looks for node {found.wanted} and this is node {me.node_id}")
    check_proof(signature if isinstance(signature, bytes) else b"", _signature(me.secret, rows))
    return found


def _rest(version: int, rest: list[object]) -> Hello:
    match rest:
        case [
            str(cluster_id),
            int(node_id),
            str(directory_id),
            int(wanted),
            bytes(nonce),
            int(number),
            [*tokens],
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


def frame_key(secret: bytes, role: bytes, caller_hello: bytes, callee_hello: bytes) -> bytes:
    """Return the key for the frames that the end with this role sends on this link."""
    salt = hashlib.sha256(_with_length(caller_hello) + _with_length(callee_hello)).digest()
    return hkdf(secret, salt, b"frames of the " + role)


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """Return a key of 32 bytes by HKDF with SHA-256 (RFC 5869): its first block of output."""
    extracted = hmac.digest(salt, secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def _with_length(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part
