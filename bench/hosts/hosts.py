"""Some hosts on one bridge, and what can go wrong between them and with them."""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench.hosts import relay
from bench.hosts.host import ROOT, NamespaceHost
from bench.hosts.links import (
    RELAY,
    HostLink,
    bandwidth_lines,
    bridge_lines,
    filter_lines,
    host_lines,
    known_lines,
    plug_in_lines,
)
from bench.hosts.namespaces import Namespaces

BRIDGE_SCRIPT = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6\n"
HOSTS_MAX = 200


class NamespaceHosts:
    """So many hosts, numbered from 1: 10.77.0.1 and fd77::1 is ``host1``.

    Without ``has_ipv4`` they have IPv6 addresses only; 127.0.0.1 is then still there.

    They run while the ``with`` lasts. The bridge is in a namespace of its own, and no namespace
    has a name: nothing of this is seen from outside, others may do the same at the same time, and
    all ends with this process, however that is killed. ``directory`` gets the hosts' disks and
    what their programs say; it stays.

    The machine's files are those of every host, except ``/tmp``, which has the host's data
    directory (:data:`bench.hosts.host.DATA`), and ``/dev/shm``. ``shared`` names further paths
    below ``/tmp`` that all hosts have; the checkout and its Python are among them.

    All that is wrong with a link stays so until :meth:`heal`, also while the host is away.
    """

    def __init__(
        self, count: int, directory: Path, *, shared: Sequence[Path] = (), has_ipv4: bool = True
    ) -> None:
        assert 0 < count <= HOSTS_MAX
        python = (Path(sys.prefix), Path(sys.base_prefix))
        links = [HostLink(number, has_ipv4=has_ipv4) for number in range(1, count + 1)]
        visible = [ROOT, *python, *shared]
        self._hosts = [NamespaceHost(link, directory.resolve(), visible) for link in links]
        self._bridge: Namespaces | None = None
        self._relay: subprocess.Popen[bytes] | None = None

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[NamespaceHost]:
        return iter(self._hosts)

    def __getitem__(self, index: int) -> NamespaceHost:
        return self._hosts[index]

    def __enter__(self) -> "NamespaceHosts":
        with ExitStack() as upon_failure:
            upon_failure.callback(self.close)
            self._bridge = Namespaces(["--net"], BRIDGE_SCRIPT)
            for host in self:
                host.boot(self._names())
            self._bridge.wait_until_ready()
            self._bridge.configure("ip", bridge_lines())
            self._plug_in(self)
            upon_failure.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything."""
        for host in self:
            host.halt()
        if self._bridge is not None:
            self._bridge.end()
            self._bridge = self._relay = None

    def cut(self, host: NamespaceHost, other: NamespaceHost | None = None) -> None:
        """Lose everything between two hosts, or between one and all others. Nobody is told."""
        for each in self._others(host, other):
            host.link.deaf_to.add(each.link.number)
            each.link.deaf_to.add(host.link.number)
        self._apply()

    def cut_one_way(self, sender: NamespaceHost, receiver: NamespaceHost | None = None) -> None:
        """Lose what one host sends to another one, or to all others, and nothing that they send."""
        for each in self._others(sender, receiver):
            each.link.deaf_to.add(sender.link.number)
        self._apply()

    def split(self, *sides: Iterable[NamespaceHost]) -> None:
        """Lose everything between hosts of different sides, and nothing within a side."""
        listed = [{host.link.number for host in side} for side in sides]
        for at, side in enumerate(listed):
            others = set().union(*listed[:at], *listed[at + 1 :])
            for number in side:
                self[number - 1].link.deaf_to |= others
        self._apply()

    def delay(self, host: NamespaceHost, delay_ms: float, jitter_ms: float = 0.0) -> None:
        """Have all that a host sends arrive later, so many milliseconds more or less, in order.

        A round trip between two delayed hosts takes longer by both delays.
        """
        host.link.delay_ms, host.link.jitter_ms = delay_ms, jitter_ms
        self._apply()

    def loss(self, host: NamespaceHost, percent: float) -> None:
        """Lose so many of a hundred packets that a host sends, each by chance."""
        host.link.loss_percent = percent
        self._apply()

    def bandwidth(self, host: NamespaceHost, kbit_per_s: int) -> None:
        """Let a host send so much a second; 0: as much as it can."""
        was, host.link.kbit_per_s = host.link.kbit_per_s, kbit_per_s
        if host.is_up:
            host.namespaces.configure("tc", bandwidth_lines(host.link, was))

    def heal(self, host: NamespaceHost | None = None) -> None:
        """Mend all links, or those of one host: cuts, delay, loss and bandwidth."""
        healed = list(self) if host is None else [host]
        for each in healed:
            self.bandwidth(each, 0)
            each.link.heal()
        for each in self:
            each.link.deaf_to.difference_update(one.link.number for one in healed)
        self._apply()

    def vanish(self, host: NamespaceHost) -> None:
        """Take a host away as a power cut does: its processes say nothing more to anybody."""
        self._configure("tc", filter_lines(replace(host.link, loss_percent=100.0)))
        host.halt()

    def come_back(self, host: NamespaceHost, *, empty: bool) -> None:
        """Boot a host that has vanished, with its disk as it was, or ``empty``."""
        assert not host.is_up
        host.halt(empty=empty)
        host.link.boots += 1
        host.boot(self._names())
        self._plug_in([host])

    def set_clock(self, host: NamespaceHost, ahead_ms: int) -> None:
        """Set a host's wall clock so far ahead of the machine's, or behind it.

        Only programs in Python notice (:mod:`bench.hosts.clock.sitecustomize`). The steady clocks
        of hosts differ always, for all programs.
        """
        host.set_clock(ahead_ms)

    def _plug_in(self, hosts: Iterable[NamespaceHost]) -> None:
        """Connect hosts with the bridge."""
        listed = list(hosts)
        for host in listed:
            host.namespaces.wait_until_ready()
        links = [host.link for host in listed]
        pids = [host.namespaces.pid for host in listed]
        self._configure(
            "ip", [x for a, b in zip(links, pids, strict=True) for x in plug_in_lines(a, b)]
        )
        self._configure("bridge", [line for link in links for line in known_lines(link)])
        self._configure("tc", [f"qdisc add dev {link.port} clsact" for link in links])
        self._apply()
        for host in listed:
            others = [each.link for each in self if each is not host]
            host.namespaces.configure("ip", host_lines(host.link, others))
            host.namespaces.configure("tc", bandwidth_lines(host.link, 0))

    def _apply(self) -> None:
        """Make all ports do what their links say."""
        links = [host.link for host in self if host.is_up]
        for link in links:
            if link.is_late:
                self._tell_relay(f"{link.mac} {link.delay_ms} {link.jitter_ms}")
        self._configure("tc", [line for link in links for line in filter_lines(link)])

    def _configure(self, tool: str, lines: Sequence[str]) -> None:
        assert self._bridge is not None, "the hosts have ended"
        self._bridge.configure(tool, lines)

    def _tell_relay(self, line: str) -> None:
        assert self._bridge is not None
        if self._relay is None:
            self._relay = self._bridge.popen(
                [sys.executable, "-I", "-S", str(Path(relay.__file__)), RELAY],
                streams={"stdin": subprocess.PIPE, "stdout": subprocess.PIPE},
            )
        assert self._relay.stdin is not None
        assert self._relay.stdout is not None
        self._relay.stdin.write(f"{line}\n".encode())
        self._relay.stdin.flush()
        assert self._relay.stdout.readline(), "the relay has ended"

    def _others(
        self, host: NamespaceHost, other: NamespaceHost | None = None
    ) -> list[NamespaceHost]:
        return [other] if other is not None else [each for each in self if each is not host]

    def _names(self) -> str:
        """Return an /etc/hosts."""
        lines = ["127.0.0.1 localhost", "::1 localhost"]
        for host in self:
            lines += [f"{address} {host.name}" for address in host.link.addresses]
        return "\n".join([*lines, ""])
