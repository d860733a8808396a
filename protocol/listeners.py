"""Listeners in Kafka's syntax, and the addresses that each coordinator gets from them.

All coordinators have the same configs. So ``listeners`` and ``advertised.listeners`` may contain
placeholders, and several coordinators on one host use consecutive ports: the i-th one, from 0 and
by node id, uses the configured port + i. A port with a placeholder is used as it is.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from protocol.config_error import ConfigError, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
CONTROLLERS: Final = "controller.listener.names"
REPLICA_PORT: Final = "replica.port"
CONSOLE_PORT: Final = "console.port"

PLAINTEXT: Final = "PLAINTEXT"
PORT_MAX: Final = 65535
NODE_ID: Final = "{node.id}"
RAY_NODE_ADDRESS: Final = "{ray.node.address}"

_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_HOST_NAME: Final = re.compile(r"(?=.{1,253}$)[0-9A-Za-z_-]{1,63}(\.[0-9A-Za-z_-]{1,63})*\.?")
_NUMBER_AT_END: Final = re.compile(r"(.*\.)?([0-9]+|0[xX][0-9A-Fa-f]*)\.?")
"""What the system may take for some form of an IPv4 address instead of a host name."""


class ListenerConfigs(Protocol):
    """The configs that are read here (:class:`protocol.config.Configs`)."""

    overrides: Mapping[str, str]

    def strings(self, name: str) -> tuple[str, ...]:
        """Return a list."""

    def integer(self, name: str) -> int:
        """Return an integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredListener:
    """A listener as ``text`` in ``config`` defines it; host and port may contain placeholders.

    An empty ``host`` means the address of the coordinator's Ray node.
    """

    config: str
    text: str
    name: str
    host: str
    port: str

    @property
    def is_everywhere(self) -> bool:
        """Whether the host is a meta-address, which means all addresses of a machine."""
        address = _ip_address(self.host)
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            return address.ipv4_mapped.is_unspecified
        return address is not None and address.is_unspecified

    @property
    def is_any_port(self) -> bool:
        """Whether the port is 0. No placeholder makes it that."""
        return NODE_ID not in self.port and int(self.port) == 0

    def host_of(self, node_id: int, ray_address: str) -> str:
        """Return a coordinator's host; an IP address in its canonical form."""
        host = _filled(self.host or RAY_NODE_ADDRESS, node_id, ray_address)
        if not _is_host(host):
            raise self.wrong(
                f"node {node_id} would have host {host}, which is no IP address or host name"
            )
        return str(_ip_address(host) or host)

    def port_of(self, node_id: int, index: int) -> int:
        """Return the port of a coordinator, the ``index``-th of its host; 0: any free port."""
        if self.is_any_port:
            return 0
        if NODE_ID not in self.port:
            return _port_on_host(self.config, int(self.port), node_id, index)
        port = _filled(self.port, node_id, "")
        if not _is_port(port) or int(port) == 0:
            raise self.wrong(f"node {node_id} would have port {port}, which is no port")
        return int(port)

    def wrong(self, why: str) -> ConfigError:
        """Return the error that says what is wrong with this listener."""
        return invalid(self.config, self.text, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerAddress:
    """Where a coordinator listens, and what it advertises, for the listener of one name.

    ``bind_port`` is 0 for any free port. ``advertised_port`` is None if it is the one that is
    bound, whatever that will be.
    """

    name: str
    bind_host: str
    bind_port: int
    advertised_host: str
    advertised_port: int | None


def host_and_port(host: str, port: int) -> str:
    """Return ``HOST:PORT``; an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_listener(config: str, text: str) -> ConfiguredListener:
    """Parse ``NAME://HOST:PORT``; the host may be empty, and an IPv6 address is in brackets."""
    name, has_name, address = text.strip().partition("://")
    if not (has_name and name):
        raise invalid(config, text, f"it must have the form {PLAINTEXT}://HOST:PORT")
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = address.rpartition(":")
        if host.count(":") > 1:
            raise invalid(config, text, f"an IPv6 address must be in brackets: [{host}]")
    if colon != ":" or not port:
        raise invalid(config, text, f"it has no port: it must end as in {PLAINTEXT}://HOST:9092")
    listener = ConfiguredListener(config=config, text=text, name=name.upper(), host=host, port=port)
    _check(listener)
    return listener


def _check(listener: ConfiguredListener) -> None:
    """Refuse a host or a port that no node could have; the samples are those of a node 1."""
    for found in _PLACEHOLDER.findall(listener.host + listener.port):
        if found not in (NODE_ID, RAY_NODE_ADDRESS):
            known = f"there are {NODE_ID} and {RAY_NODE_ADDRESS}"
            raise listener.wrong(f"there is no placeholder {found}: {known}")
    if RAY_NODE_ADDRESS in listener.port:
        raise listener.wrong(f"{RAY_NODE_ADDRESS} cannot be part of a port")
    if listener.host and not _is_host(_filled(listener.host, 1, "host")):
        raise listener.wrong(f"{listener.host} is no IP address or host name")
    if not _is_port(_filled(listener.port, 1, "")):
        raise listener.wrong(f"{listener.port} is no port: ports are numbers up to {PORT_MAX}")


def check_listeners(configs: ListenerConfigs) -> None:
    """Raise a :class:`ConfigError` if no coordinator can have these listeners."""
    _listeners(configs)


def listener_addresses(
    configs: ListenerConfigs, node_id: int, ray_address: str, index: int
) -> tuple[ListenerAddress, ...]:
    """Return the addresses of a coordinator, one row per listener; so far there is one.

    ``ray_address`` is that of its Ray node. ``index`` is its number, from 0, among the coordinators
    of its host. Raises :class:`ConfigError`.
    """
    found = []
    for bound, advertised in _listeners(configs):
        shown = advertised or bound
        port = shown.port_of(node_id, index)
        found.append(
            ListenerAddress(
                name=bound.name,
                bind_host=bound.host_of(node_id, ray_address),
                bind_port=bound.port_of(node_id, index),
                advertised_host=shown.host_of(node_id, ray_address),
                advertised_port=port or None,
            )
        )
    return tuple(found)


def replica_port(configs: ListenerConfigs, node_id: int, index: int) -> int:
    """Return the port at which a coordinator listens for the others; 0: any free port."""
    port = configs.integer(REPLICA_PORT)
    return _port_on_host(REPLICA_PORT, port, node_id, index) if port else 0


def check_cluster(configs: ListenerConfigs, hosts: Sequence[str]) -> None:
    """Raise a :class:`ConfigError` if two listeners of a cluster would have the same address.

    ``hosts`` are the addresses of the coordinators' Ray nodes, by node id.
    """
    before: Counter[str] = Counter()
    advertised: dict[tuple[str, int], int] = {}
    bound: dict[tuple[str, int], tuple[str, int]] = {}
    for node_id, host in enumerate(hosts):
        index = before[host]
        before[host] += 1
        ports = [(REPLICA_PORT, replica_port(configs, node_id, index))]
        for one in listener_addresses(configs, node_id, host, index):
            ports.append((LISTENERS, one.bind_port))
            if one.advertised_port is not None:
                address = one.advertised_host, one.advertised_port
                _check_advertised(
                    configs, address, advertised.setdefault(address, node_id), node_id
                )
        for config, port in ports:
            other = bound.setdefault((host, port), (config, node_id))
            if port and other != (config, node_id):
                raise ConfigError(
                    f"Node {other[1]} ({other[0]}) and node {node_id} ({config}) would both listen"
                    f" on port {port} of {host}: choose other ports"
                )
    _check_console(configs.integer(CONSOLE_PORT), bound)


def _check_console(console: int, bound: Mapping[tuple[str, int], tuple[str, int]]) -> None:
    """Raise a :class:`ConfigError` for a port of a coordinator: the console may be on any host."""
    for (host, port), (config, node_id) in bound.items():
        if port and port == console:
            raise ConfigError(
                f"The console ({CONSOLE_PORT}) and node {node_id} ({config}) would both listen on"
                f" port {port} of {host}: choose other ports"
            )


def _check_advertised(
    configs: ListenerConfigs, address: tuple[str, int], other: int, node_id: int
) -> None:
    if other != node_id:
        config = ADVERTISED if configs.strings(ADVERTISED) else LISTENERS
        raise ConfigError(
            f"{config} gives nodes {other} and {node_id} the same address, host {address[0]} and"
            f" port {address[1]}: make it differ by {NODE_ID} or {RAY_NODE_ADDRESS}"
        )


def _listeners(
    configs: ListenerConfigs,
) -> list[tuple[ConfiguredListener, ConfiguredListener | None]]:
    """Return each listener with what is advertised for it; None: the listener itself."""
    bound = _parsed(configs, LISTENERS)
    _check_ports(bound)
    advertised = _parsed(configs, ADVERTISED) if ADVERTISED in configs.overrides else ()
    given = {one.name: one for one in _for_clients(configs, ADVERTISED, advertised)}
    pairs = [(one, given.get(one.name)) for one in _for_clients(configs, LISTENERS, bound)]
    for listener, shown in pairs:
        if shown is None and listener.is_everywhere:
            raise listener.wrong(
                f"no client can connect to {listener.host}: set {ADVERTISED} to what it can"
            )
        if shown is not None and shown.is_everywhere:
            raise shown.wrong(f"no client can connect to {shown.host}: use a routable IP address")
        if shown is not None and shown.is_any_port:
            raise shown.wrong("no client can connect to port 0")
    return pairs


def _parsed(configs: ListenerConfigs, config: str) -> tuple[ConfiguredListener, ...]:
    parsed = tuple(parse_listener(config, text) for text in configs.strings(config))
    if not parsed:
        raise invalid(config, "", "it must not be empty")
    for name, count in Counter(one.name for one in parsed).items():
        if count > 1:
            raise invalid(config, _texts(parsed), f"{count} listeners have the name {name}")
    return parsed


def _check_ports(listeners: Sequence[ConfiguredListener]) -> None:
    """Refuse a port that two listeners have, unless one has an IPv4 and one an IPv6 address."""
    by_port: dict[str, list[ConfiguredListener]] = {}
    for one in listeners:
        if not one.is_any_port:
            by_port.setdefault(one.port, []).append(one)
    for port, group in by_port.items():
        versions = [getattr(_ip_address(one.host), "version", None) for one in group]
        if len(group) > 1 and sorted(map(str, versions)) != ["4", "6"]:
            raise invalid(LISTENERS, _texts(listeners), f"{len(group)} listeners have port {port}")


def _for_clients(
    configs: ListenerConfigs, config: str, listeners: Sequence[ConfiguredListener]
) -> tuple[ConfiguredListener, ...]:
    """Return the listeners that are not for Kafka's controllers: one, which is not encrypted."""
    controllers = {name.upper() for name in configs.strings(CONTROLLERS)}
    found = tuple(one for one in listeners if one.name not in controllers)
    if listeners and not found:
        raise invalid(config, _texts(listeners), "it has no listener for clients")
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise invalid(
            config,
            _texts(listeners),
            f"there can be one listener, not {len(found)} ({names}); those of Kafka's controllers"
            f" are left out if {CONTROLLERS} names them",
        )
    for one in found:
        if one.name != PLAINTEXT:
            raise one.wrong(
                f"{one.name} is not supported: there are listeners for {PLAINTEXT} only"
            )
    return found


def _texts(listeners: Iterable[ConfiguredListener]) -> str:
    return ",".join(one.text for one in listeners)


def _port_on_host(config: str, port: int, node_id: int, index: int) -> int:
    if port + index > PORT_MAX:
        raise ConfigError(
            f"{config} leaves no port for node {node_id}: {index} other coordinators of its host"
            f" have the ports from {port} on, and the last port is {PORT_MAX}"
        )
    return port + index


def _filled(text: str, node_id: int, ray_address: str) -> str:
    return text.replace(NODE_ID, str(node_id)).replace(RAY_NODE_ADDRESS, ray_address)


def _is_port(text: str) -> bool:
    return _PORT.fullmatch(text) is not None and int(text) <= PORT_MAX


def _is_host(text: str) -> bool:
    if _ip_address(text) is not None:
        return True
    return _HOST_NAME.fullmatch(text) is not None and not _NUMBER_AT_END.fullmatch(text)


def _ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
