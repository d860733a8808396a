"""The names under which browsers may ask the console: addresses, and names of this machine.

The owner of a name may let it lead to this machine (DNS rebinding). To a browser, a page of that
name and the console are then of one origin: it may read the one and send the forms of the other.
An address cannot be taken over so, and neither can a name that operators chose.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from actors.console.forms import sentence
from protocol.config import Configs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from actors.cluster.spec import ClusterSpec

HOSTS: Final = "console.hosts"
LOCALHOST: Final = "localhost"
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(:[0-9]{1,5})?")


class KnownHosts:
    """What the Host header of a request may name. Addresses and ``localhost`` are always known."""

    def __init__(self, names: Iterable[str] = (), setting: str = HOSTS) -> None:
        """Know these names; ``setting`` is where operators add some."""
        self._names = frozenset(map(_plain, (LOCALHOST, socket.gethostname(), *names)))
        self.refusal = f"The console does not serve this host name: {setting} adds host names."

    def learn(self) -> None:
        """Add this machine's full name; it may be asked of the network, and blocks."""
        self._names |= {_plain(socket.getfqdn())}

    def has(self, header: str) -> bool:
        """Whether a Host header names an address, or a name that is known."""
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        host = found[1]
        try:
            ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return _plain(host) in self._names
        return host.startswith("[") == (":" in host)


def hosts_of(spec: ClusterSpec) -> list[str]:
    """Return the names that a cluster's configs have for its hosts, and those of the config."""
    found = list(Configs(spec.overrides).strings(HOSTS))
    for place in spec.places:
        found += [place.advertised.host, place.listener.host]
    return [each for each in found if each]


class OwnHosts:
    """Answers requests whose Host header names another site; the others it passes on.

    A program that sends no such header is no browser.
    """

    def __init__(self, app: ASGIApp, hosts: KnownHosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if all(map(self._hosts.has, named)):
            await self._app(scope, receive, send)
        else:
            refused = sentence(self._hosts.refusal, HTTPStatus.MISDIRECTED_REQUEST)
            await refused(scope, receive, send)


def _plain(name: str) -> str:
    """Return a name as names are compared."""
    return name.lower().removesuffix(".")
