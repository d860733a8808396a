"""The links of hosts: their addresses, and what is wrong with each, as lines for ``ip`` and ``tc``.

All but bandwidth is done at the bridge's end of a host's link. Frames from a host pass the ingress
of its port: there some are lost, and delayed ones are led to the relay. Frames to a host pass the
egress of its port: there those of hosts from which it is cut off are dropped. Nobody is told.

Both filters are a few instructions for the kernel's packet filter, replaced as a whole. That is
why neither ``netem`` nor any firewall is needed. The kernel can delay nothing without ``netem``;
:mod:`bench.hosts.relay` does that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

BRIDGE = "bridge"
RELAY, RELAY_PORT = "relay", "relay-port"
"""The two ends of the relay's link: its own, and the one at the bridge."""

NETWORK = "10.77.0"
NETWORK_6 = "fd77:"

DROP, GO_ON = 2, 0xFFFFFFFF
"""What a filter that decides by itself answers (TC_ACT_SHOT, TC_ACT_UNSPEC)."""

MATCHES = 0xFFFFFFFF
"""What a filter answers whose action is to be taken."""

SENDER_OFFSET = 8
"""Where the last four bytes of a frame's source address are."""

RANDOM_OFFSET = 0xFFFFF000 + 56
"""Where a filter finds 32 random bits (SKF_AD_RANDOM)."""

BURST_MS, BURST_BYTES_MIN, QUEUE_MS = 10, 16_000, 400
"""What a narrow link sends at once, and how much of its traffic waits before it drops more."""


@dataclass(slots=True)
class HostLink:
    """One host's link. Delay, loss and bandwidth are those of what the host sends."""

    number: int
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss_percent: float = 0.0
    kbit_per_s: int = 0
    deaf_to: set[int] = field(default_factory=set)
    """The hosts of which nothing arrives."""

    boots: int = 1
    """The kernel takes a moment to remove the port of a host that has vanished."""

    has_ipv4: bool = True
    """Without it the host has its IPv6 address only."""

    @property
    def port(self) -> str:
        """The bridge's end."""
        return f"port{self.number}-{self.boots}"

    @property
    def mac(self) -> str:
        """The host's hardware address; it keeps it when it comes back."""
        return f"02:4d:00:00:{self.number >> 8:02x}:{self.number & 255:02x}"

    @property
    def ip4(self) -> str:
        """The host's IPv4 address, if it has one."""
        return f"{NETWORK}.{self.number}"

    @property
    def ip6(self) -> str:
        """The host's IPv6 address."""
        return f"{NETWORK_6}:{self.number:x}"

    @property
    def addresses(self) -> list[str]:
        """All that the host has, the one that its programs are given first."""
        return [self.ip4, self.ip6] if self.has_ipv4 else [self.ip6]

    @property
    def is_late(self) -> bool:
        """Whether what the host sends goes through the relay."""
        return bool(self.delay_ms or self.jitter_ms)

    def heal(self) -> None:
        """Forget what is wrong with it."""
        self.delay_ms = self.jitter_ms = self.loss_percent = 0.0
        self.kbit_per_s = 0
        self.deaf_to = set()


def bridge_lines() -> list[str]:
    """Return ``ip``'s lines for a bridge without hosts."""
    port = f"link set {RELAY_PORT} type bridge_slave learning off"
    return [
        f"link add {BRIDGE} type bridge mcast_snooping 0",
        f"link add {RELAY} type veth peer name {RELAY_PORT}",
        f"link set {RELAY_PORT} master {BRIDGE}",
        f"{port} flood off mcast_flood off bcast_flood off",
        *(f"link set {name} up" for name in (BRIDGE, RELAY, RELAY_PORT)),
    ]


def plug_in_lines(link: HostLink, pid: int) -> list[str]:
    """Return ``ip``'s lines that connect the network of a process with the bridge."""
    return [
        f"link add {link.port} type veth peer name eth0 address {link.mac} netns {pid}",
        f"link set {link.port} master {BRIDGE}",
        f"link set {link.port} type bridge_slave learning off",
        f"link set {link.port} up",
    ]


def known_lines(link: HostLink) -> list[str]:
    """Return ``bridge``'s lines by which a host is found without being asked for."""
    return [f"fdb replace {link.mac} dev {link.port} master static"]


def host_lines(link: HostLink, others: Iterable[HostLink]) -> list[str]:
    """Return ``ip``'s lines in the network of the host.

    It knows the hardware addresses of all others for good, as behind a router: without that, the
    network's silence would become an error ("no route to host") after some seconds.
    """
    lines = [f"address add {link.ip6}/64 dev eth0 nodad", "link set eth0 up"]
    lines.append("route add ::/0 dev eth0")
    if link.has_ipv4:
        lines.append(f"address add {link.ip4}/24 dev eth0")
        lines.append("route add default dev eth0")
    for other in others:
        for address in other.addresses:
            lines.append(f"neighbour replace {address} lladdr {other.mac} dev eth0 nud permanent")
    return lines


def filter_lines(link: HostLink) -> list[str]:
    """Return ``tc``'s lines that make the port do what the link says."""
    deaf, lossy = deaf_program(sorted(link.deaf_to)), loss_program(link.loss_percent)
    late = _program([_answer(MATCHES if link.is_late else 0)])
    to_relay = f"action mirred egress redirect dev {RELAY_PORT}"
    return [
        f"filter replace dev {link.port} egress {_bpf(1)} direct-action bytecode '{deaf}'",
        f"filter replace dev {link.port} ingress {_bpf(1)} direct-action bytecode '{lossy}'",
        f"filter replace dev {link.port} ingress {_bpf(2)} bytecode '{late}' {to_relay}",
    ]


def bandwidth_lines(link: HostLink, was_kbit_per_s: int) -> list[str]:
    """Return ``tc``'s lines in the network of the host."""
    rate = link.kbit_per_s
    if rate == was_kbit_per_s:
        return []
    if not rate:
        return ["qdisc del dev eth0 root"]
    burst = max(BURST_BYTES_MIN, rate * BURST_MS // 8)
    shape = f"tbf rate {rate}kbit burst {burst} latency {QUEUE_MS}ms"
    return [f"qdisc replace dev eth0 root {shape}"]


def deaf_program(senders: list[int]) -> str:
    """Return the filter that drops the frames of these hosts."""
    tests = (_jump_if_equal(number, len(senders) - at) for at, number in enumerate(senders))
    return _program([f"32 0 0 {SENDER_OFFSET}", *tests, _answer(GO_ON), _answer(DROP)])


def loss_program(percent: float) -> str:
    """Return the filter that drops so many of a hundred frames, each by chance."""
    limit = int(percent / 100 * (1 << 32))
    if limit >> 32:
        return _program([_answer(DROP)])
    load, at_least = f"32 0 0 {RANDOM_OFFSET}", f"53 1 0 {limit}"
    return _program([load, at_least, _answer(DROP), _answer(GO_ON)])


def _bpf(order: int) -> str:
    return f"pref {order} protocol all handle 1 bpf"


def _jump_if_equal(value: int, skipped: int) -> str:
    return f"21 {skipped} 0 {value}"


def _answer(verdict: int) -> str:
    return f"6 0 0 {verdict}"


def _program(instructions: Iterable[str]) -> str:
    listed = list(instructions)
    return f"{len(listed)}," + ",".join(listed)
