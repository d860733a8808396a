"""The ports of a cluster's listeners on one host: fixed ones are checked, free ones are chosen."""

from __future__ import annotations

import contextlib
import random
import socket
from typing import TYPE_CHECKING, Final

from actors.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.cluster.spec import Address

SERVER_PORTS: Final = range(12_000, 30_000)
"""Below the ports that Linux (from 32768) and others (from 49152) give to outgoing connections."""

TRIES: Final = 20
LOCAL_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
"""Where the first coordinator of a host listens if nothing else is asked for."""


def choose_ports(wanted: Sequence[Address], before: Sequence[int] = ()) -> tuple[int, ...]:
    """Return a port for each of the addresses to listen at, in this order.

    Port 0 means the port of the last start, in ``before``, if that can be bound, else any free
    port. No port is chosen twice. Raises :class:`actors.errors.BadInputError` if an address cannot
    be bound.
    """
    for address in sorted({*wanted}, key=str):
        if why := bind_error(address.host, address.port):
            where = address if address.port else address.host
            raise BadInputError(f"Cannot listen on {where}: {why}.")
    last = before if len(before) == len(wanted) else [0] * len(wanted)
    taken = {address.port for address in wanted if address.port}
    found = []
    for (host, port), previous in zip(map(_pair, wanted), last, strict=True):
        is_kept = previous and previous not in taken and not bind_error(host, previous)
        found.append(port or (previous if is_kept else free_port(host, {*taken, *last})))
        taken.add(found[-1])
    return tuple(found)


def _pair(address: Address) -> tuple[str, int]:
    return address.host, address.port


def free_port(host: str = LOCAL_HOST, but: Collection[int] = ()) -> int:
    """Return a port that can be bound, none of ``but``.

    If possible it is none that the kernel gives to outgoing connections: one of these could have it
    when a process that was killed comes back to its port.
    """
    for port in random.sample(SERVER_PORTS, TRIES):
        if port not in but and not bind_error(host, port):
            return port
    with contextlib.ExitStack() as stack:
        while True:
            probe = stack.enter_context(_socket(host))
            probe.bind((host, 0))
            port = int(probe.getsockname()[1])
            if port not in but:
                return port


def bind_error(host: str, port: int) -> str:
    """Return why the address cannot be bound now; "" if it can."""
    try:
        with _socket(host) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
