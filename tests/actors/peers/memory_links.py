"""Two ends of a link in memory: what each writes is kept, to be changed before the other reads."""

import asyncio
from dataclasses import dataclass, field

from actors.peers.handshake import Hello, LocalNode
from actors.peers.link import Link
from actors.peers.tls import TlsEnd
from actors.peers.versions import PEER_VERSIONS, PeerVersion
from storage.peer_packing import LENGTH_BYTES

SECRET = b"s" * 32


class Wire(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def take(self) -> bytes:
        taken = bytes(self.written)
        self.written.clear()
        return taken

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Change nothing: all is kept."""

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


@dataclass
class Owner:
    """The owner of one link (:class:`actors.peers.link.Links`)."""

    me: LocalNode
    bodies: list[bytes] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    stale: int = 0

    def appeared(self, link: Link) -> None: ...

    def accepts(self, hello: Hello, link: Link) -> None: ...

    def vouches(self, link: Link) -> bool:
        return True

    def is_stale(self, link: Link) -> None:
        self.stale += 1

    def opened(self, link: Link) -> None: ...

    def received(self, link: Link, frame: bytes) -> None:
        self.bodies.append(frame)

    def refused(self, link: Link, why: str) -> None:
        self.refusals.append(why)

    def closed(self, link: Link) -> None: ...


class End:
    """One end of a link."""

    def __init__(
        self, node_id: int, calls: int = -1, tls: TlsEnd | None = None,
        versions: tuple[PeerVersion, ...] = PEER_VERSIONS,
    ) -> None:  # fmt: skip
        me = LocalNode(
            cluster_id="cluster", node_id=node_id, directory_id=f"d-{node_id}", secret=SECRET,
            versions=versions,
        )  # fmt: skip
        self.owner = Owner(me)
        self.wire = Wire()
        self.link = Link(self.owner, calls, tls)
        self.link.connection_made(self.wire)

    def sent(self, body: bytes) -> bytes:
        """Return the bytes that the link writes for a body."""
        self.link.send(body)
        return self.wire.take()

    def close(self) -> None:
        self.link.close()
        self.link.connection_lost(None)


def pass_on(caller: End, callee: End) -> None:
    """Deliver everything, both ways, until nothing is left."""
    while caller.wire.written or callee.wire.written:
        callee.link.data_received(caller.wire.take())
        caller.link.data_received(callee.wire.take())


def ends(caller: TlsEnd | None = None, callee: TlsEnd | None = None) -> tuple[End, End]:
    """Return the caller, node 0, and the callee, node 1, before anything is delivered."""
    return End(0, calls=1, tls=caller), End(1, tls=callee)


def opened() -> tuple[End, End]:
    """Return two ends after their handshake."""
    pair = ends()
    pass_on(*pair)
    assert all(end.link.is_open for end in pair)
    return pair


def frames_in(data: bytes) -> list[bytes]:
    """Cut what a link wrote into its frames, each with its length."""
    found = []
    while data:
        end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
        found.append(data[:end])
        data = data[end:]
    return found
