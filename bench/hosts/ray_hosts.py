"""Ray on hosts, as an operator starts it: ``ray start --head`` on one, ``--address`` on others."""

import secrets
import subprocess
from collections.abc import Mapping, Sequence

from actors.cluster.ray_node import _QUIET, OBJECT_STORE_BYTES, STORE_PATH
from actors.cluster.spec import Address
from bench.hosts.host import TMP, NamespaceHost, Running
from bench.hosts.waiting import PATIENCE, HostError, patient

PORT = 6379
TOKEN = TMP / "ray-token"
STORE = TMP / "ray-store"
"""Where the head keeps what it must know when it starts again: on its disk."""

START_S = patient(90)
STARTS_MAX = 3
GIVEN_UP = "timed out during startup"
"""What Ray says of a node that has not started in its time, which cannot be set."""

QUICK_HEALTH_CHECKS = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": str(int(2000 * min(PATIENCE, 2.5))),
    "RAY_health_check_failure_threshold": "3",
}
"""Let Ray notice in seconds that a host has vanished; by default that takes up to a minute.

A host that has its turn late is no host that has vanished: its processes would be ended.
"""


class RayOnHosts:
    """A Ray cluster whose head is on ``head``; ``settings`` are environment variables of Ray.

    ``head_settings`` are those of ``ray start --head`` only, such as the address of a Redis.
    Only who has its token may use it: Ray processes do, and programs that are started with
    :meth:`environment` on a host that :meth:`admit` knows.
    """

    def __init__(
        self, head: NamespaceHost, settings: Mapping[str, str] | None = None,
        head_settings: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.head = head
        self._head_settings = dict(head_settings or {})
        self._settings = {**_QUIET, STORE_PATH: str(STORE), **(settings or {})}
        self._token = secrets.token_hex(32)

    @property
    def address(self) -> str:
        """What ``ray start --address`` and ``rollcall up --address`` are given."""
        return str(Address(host=self.head.ip, port=PORT))

    @property
    def environment(self) -> dict[str, str]:
        """What programs need that use this Ray."""
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(TOKEN)}
        return {**self._settings, **token}

    def admit(self, host: NamespaceHost) -> None:
        """Give a host the token: ``~/.ray`` stays as it is."""
        token = host.disk / TOKEN.name
        token.touch(mode=0o600)
        token.write_text(self._token)

    def start(self, hosts: Sequence[NamespaceHost], *options: str) -> None:
        """Start Ray on hosts, first on the head if it is one of them; ``options`` are Ray's.

        One after the other: Ray gives up a node that has not started within 30 seconds. Then it is
        started again.
        """
        for host in sorted(hosts, key=lambda host: host is not self.head):
            what = f"`ray start` on {host.name}"
            for _ in range(STARTS_MAX - 1):
                try:
                    _end(self.begin(host, *options), what)
                    break
                except HostError as error:
                    if GIVEN_UP not in str(error):
                        raise
                    self.stop(host)
            else:
                _end(self.begin(host, *options), what)

    def begin(self, host: NamespaceHost, *options: str) -> Running:
        """Begin to start Ray on a host."""
        self.admit(host)
        where = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        settings = {**self.environment, **self._head_settings}
        if host is not self.head:
            where, settings = [f"--address={self.address}"], self.environment
        small = [f"--object-store-memory={OBJECT_STORE_BYTES}", "--num-cpus=2"]
        words = [*where, f"--node-ip-address={host.ip}", "--disable-usage-stats", *small, *options]
        return host.popen("ray", "start", *words, env=settings)

    def stop(self, host: NamespaceHost) -> None:
        """Stop Ray on a host; it sees no processes of other hosts."""
        running = host.popen("ray", "stop", "--grace-period=5", env=self.environment)
        _end(running, f"`ray stop` on {host.name}")


def _end(running: Running, what: str) -> None:
    """Wait for the end of a command that must not fail."""
    try:
        code = running.process.wait(START_S)
    except subprocess.TimeoutExpired:
        code = None
    if code != 0:
        said = f"{running.said()}{running.stderr.read_text()}".strip().splitlines()
        raise HostError(f"{what} failed: {''.join(said[-1:])}")
