"""The services of deploy/systemd on hosts: their commands and environment, without systemd."""

import re
import shlex
from collections.abc import Mapping, Sequence

from actors.cluster.spec import Address
from bench.hosts.clusters import UP_S, HostCluster
from bench.hosts.host import DATA, TMP, NamespaceHost, Running
from bench.hosts.ray_hosts import QUICK_HEALTH_CHECKS, RayOnHosts
from tests.deploy.prune import ROOT
from tests.deploy.test_systemd import PROGRAMS, SYSTEMD, VARIABLE, environment, settings
from tests.hosts.test_ray_hosts import wait_for

HEAD = "rollcall-ray-head"
WORKER = "rollcall-ray-worker"
CLUSTER = "rollcall"
ETC = TMP / "etc"
PLACES = {"/etc/rollcall": str(ETC), "/var/lib/rollcall": str(DATA.parent)}
"""Where the files of the units are on a host: only its ``/tmp`` is its own."""


def moved(text: str) -> str:
    """Return a text with the places that these hosts have."""
    for place, here in PLACES.items():
        text = text.replace(place, here)
    return text


class RayByUnits(RayOnHosts):
    """A Ray cluster that is started as ``rollcall-ray-head`` and ``rollcall-ray-worker`` do it."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment file, and quick health checks."""
        rows = {name: moved(value) for name, value in environment().items()}
        head = str(Address(host=self.head.ip, port=0)).removesuffix(":0")
        return {**rows, **QUICK_HEALTH_CHECKS, "HEAD_ADDRESS": head}

    def admit(self, host: NamespaceHost) -> None:
        """Put the token where the environment file says."""
        (host.disk / ETC.name).mkdir(exist_ok=True)
        super().admit(host)
        (host.disk / "ray-token").rename(host.disk / ETC.name / "ray-token")

    def begin(self, host: NamespaceHost, *options: str) -> Running:
        """Start the unit of Ray on a host."""
        self.admit(host)
        return self.run(host, HEAD if host is self.head else WORKER, "ExecStart", options)

    def start(self, hosts: Sequence[NamespaceHost], *options: str) -> None:
        """Start Ray on hosts, and wait until all have joined."""
        for host in sorted(hosts, key=lambda host: host is not self.head):
            self.begin(host, *options)
        wait_for(self, hosts)

    def run(
        self, host: NamespaceHost, unit: str, name: str, options: Sequence[str] = ()
    ) -> Running:
        """Run the command ``ExecStart`` or ``ExecStop`` of a unit on a host."""
        mine = {**self.environment, "NODE_ADDRESS": host.ip}
        (line,) = settings(SYSTEMD / f"{unit}.service")[name]
        words = shlex.split(moved(line.removeprefix("-")).replace(PROGRAMS, ""))
        filled = [VARIABLE.sub(lambda found: mine[found[1]], word) for word in words]
        return host.popen(*filled, *options, env=mine)


def configure(hosts: Sequence[NamespaceHost], more: Mapping[str, str]) -> None:
    """Give hosts ``deploy/server.properties`` with its lines about TLS, and more configs."""
    text = (ROOT / "deploy" / "server.properties").read_text()
    text = re.sub(r"^# (?=security\.|ssl\.)", "", text, flags=re.MULTILINE)
    lines = [moved(text), *(f"{name}={value}" for name, value in more.items()), ""]
    for host in hosts:
        (host.disk / ETC.name / "server.properties").write_text("\n".join(lines))


def start_cluster(ray: RayByUnits) -> HostCluster:
    """Start the cluster as ``rollcall.service`` does, on the head's host."""
    unit = ray.run(ray.head, CLUSTER, "ExecStart")
    assert unit.process.wait(UP_S) == 0, unit.stderr.read_text()
    return HostCluster(ray).started(unit.said())
