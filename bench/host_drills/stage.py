"""What a drill on hosts does to them, and what it waits for."""

from __future__ import annotations

import json
import shutil
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from actors.waiting import poll
from bench.hosts.clusters import COMMAND_S, hosts_in
from bench.hosts.host import DATA
from bench.hosts.waiting import patient
from bench.servers.condition import holds
from failover.drills.checked import DrillError
from failover.drills.drill import Condition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from bench.client.cluster_client import ClusterClient
    from bench.host_drills.programs import Program
    from bench.hosts.clusters import HostCluster
    from bench.hosts.host import NamespaceHost
    from bench.hosts.hosts import NamespaceHosts
    from bench.load.rehearsal import Rehearsal

STATUS_S: Final = patient(5)
WELL_MS_MAX: Final = int(patient(150) * 1000)
"""How long a cluster may take until all is well: Ray starts on several hosts on one machine."""

LEFT_MS_MAX: Final = int(patient(60) * 1000)
"""How long all groups may take to leave some hosts."""

OFFERED_MS_MAX: Final = int(patient(30) * 1000)
"""How long the controller may take to see a host that has joined."""

BALANCE_S: Final = patient(300)
"""How long coordinators may take to move, one after the other."""

RAY_ENDS_S: Final = patient(60)
"""How long Ray's process on a host may take to notice that the head has given it up."""

RAY_RUNS: Final = ("sh", "-c", "grep -qsx raylet /proc/[0-9]*/comm")


class HostStage:
    """The hosts of a drill: those of the cluster, and spare ones, which Ray does not run on yet.

    Use it from a thread whose network reaches the hosts: that of the client host.
    """

    def __init__(
        self, network: NamespaceHosts, cluster: HostCluster, hosts: Sequence[NamespaceHost],
        spares: Sequence[NamespaceHost], rehearsal: Rehearsal,
    ) -> None:  # fmt: skip
        self.network = network
        self.cluster = cluster
        self.hosts = list(hosts)
        self.spares = list(spares)
        self.rehearsal = rehearsal
        self.versions: Sequence[Program] = ()
        """The programs of the hosts; they run the first one at first."""
        self._runs: dict[str, Program] = {}
        self.homes: list[str] = []
        """The addresses of the hosts where the coordinators belong, by node id."""
        self._console = cluster.ready["console"]
        self._unreached: set[str] = set()

    @property
    def head(self) -> NamespaceHost:
        """The host of Ray's head."""
        return self.cluster.ray.head

    @property
    def clients(self) -> ClusterClient:
        """The cluster as clients see it."""
        return self.rehearsal.cluster

    # --- its state

    def leader(self) -> NamespaceHost:
        """Return a host that leads groups; the head only if no other one does."""
        leading = self._leading()
        found = [host for host in self.hosts if host.ip in leading and host is not self.head]
        return found[0] if found else self.head

    def status(self) -> dict[str, Any] | None:
        """Return the cluster's status from its console; None: nobody answers.

        When the controller has moved, ``rollcall status`` tells where its console is.
        """
        if urlsplit(self._console).hostname not in self._unreached:
            try:
                url = f"{self._console}/status.json"
                with urllib.request.urlopen(url, timeout=STATUS_S) as answer:
                    found: dict[str, Any] = json.load(answer)
                    return found
            except (OSError, ValueError):
                pass
        if self.head.ip in self._unreached or not (found := self.cluster.status()):
            return None
        self._console = found["console"]
        return found

    def is_well(self) -> bool:
        """Whether all coordinators serve on their hosts, with all replicas in sync."""
        status = self.status()
        return (
            status is not None
            and holds(status, Condition.REPLICATED)
            and hosts_in(status) == self.homes
        )

    def find_homes(self) -> None:
        """Wait until the coordinators run, with all replicas in sync: they belong where they are.

        Each of the cluster's hosts must have one of them.
        """
        found: dict[str, Any] = {}

        def look() -> bool:
            found.update(self.status() or {})
            return bool(found) and holds(found, Condition.REPLICATED)

        self.clients.wait(look, WELL_MS_MAX, "replicated")
        self.homes = hosts_in(found)
        if idle := {host.ip for host in self.hosts} - {*self.homes}:
            raise DrillError(f"There is no coordinator on {', '.join(sorted(idle))}.")

    def replace_home(self, lost: NamespaceHost, spare: NamespaceHost) -> None:
        """Expect the coordinators of a lost host on a spare one."""
        self.homes = [spare.ip if home == lost.ip else home for home in self.homes]

    def wait_until_well(self) -> None:
        """Wait for that."""
        try:
            self.clients.wait(self.is_well, WELL_MS_MAX, "well again")
        except DrillError as error:
            raise DrillError(f"{error} {_summary(self.status())}") from None
        self.rehearsal.is_replicated()
        self.rehearsal.say("all coordinators run, with all replicas in sync")

    def wait_until_left(self, *hosts: NamespaceHost) -> None:
        """Wait until other hosts lead all groups."""
        left = {host.ip for host in hosts}
        names = ", ".join(host.name for host in hosts)
        what = f"led without {names}"
        self.clients.wait(lambda: not left & self._leading(), LEFT_MS_MAX, what)
        self.rehearsal.say(f"other hosts than {names} lead all groups")

    def pause(self, seconds: float) -> None:
        """Let things be as they are for a while."""
        time.sleep(seconds)

    # --- what happens to it

    def vanish(self, *hosts: NamespaceHost) -> None:
        """Let hosts lose their power, all at once."""
        self.rehearsal.fault_begins()
        for host in hosts:
            self.network.vanish(host)
        self._after(f"{_names(hosts)} vanished", unreached=hosts)

    def come_back(self, *hosts: NamespaceHost) -> None:
        """Boot hosts with their disks and start Ray on them."""
        for host in hosts:
            self.network.come_back(host, empty=False)
        self.cluster.ray.start(hosts)
        self._after(f"Ray runs on {_names(hosts)} again", reached=hosts)

    def start_spares(self) -> None:
        """Start Ray on the spare hosts."""
        self.cluster.ray.start(self.spares)
        self.rehearsal.say(f"Ray runs on {_names(self.spares)}, too, which is spare")

    def welcome_spares(self) -> None:
        """Let spare hosts join, and wait until the operator is told that they have room."""
        self.rehearsal.fault_begins()
        self.start_spares()

        def is_offered() -> bool:
            offer = (self.status() or {}).get("balance", "")
            return all(host.ip in offer for host in self.spares)

        names = _names(self.spares)
        self.clients.wait(is_offered, OFFERED_MS_MAX, f"said that {names} can have coordinators")
        self.rehearsal.say(f"the status says that {names} can have coordinators")

    def cut(self, host: NamespaceHost) -> None:
        """Cut a host off from everybody."""
        self.rehearsal.fault_begins()
        self.network.cut(host)
        self._after(f"{host.name} is cut off", unreached=[host])

    def silence(self, host: NamespaceHost) -> None:
        """Lose all that a host sends."""
        self.rehearsal.fault_begins()
        self.network.cut_one_way(host)
        self._after(f"nobody hears {host.name}", unreached=[host])

    def deafen(self, host: NamespaceHost) -> None:
        """Lose all that a host is sent."""
        self.rehearsal.fault_begins()
        for other in self.network:
            if other is not host:
                self.network.cut_one_way(other, host)
        self._after(f"{host.name} hears nobody", unreached=[host])

    def split(self, *sides: Sequence[NamespaceHost]) -> None:
        """Cut sides off from each other; clients reach all of them."""
        self.rehearsal.fault_begins()
        self.network.split(*sides)
        self._after(" | ".join(map(_names, sides)) + " do not reach each other")

    def slow_down(self, delay_ms: float, jitter_ms: float, loss_percent: float) -> None:
        """Let all that the cluster's hosts send be late, and lose some of it."""
        self.rehearsal.fault_begins()
        for host in self.hosts:
            self.network.delay(host, delay_ms, jitter_ms)
            self.network.loss(host, loss_percent)
        self._after(f"all is {delay_ms:g} ms ± {jitter_ms:g} late, and {loss_percent:g} % is lost")

    def heal(self) -> None:
        """Mend all links."""
        self.network.heal()
        self._after("all links are whole again", reached=self.hosts)

    def restart_ray_where_it_ends(self, host: NamespaceHost) -> None:
        """Start Ray again on a host that its head has given up, when it has noticed that."""
        if not poll(lambda: host.run(*RAY_RUNS).returncode, RAY_ENDS_S):
            return
        self.cluster.ray.start([host])
        self._after(f"Ray had ended on {host.name}, and runs again")

    def have_versions(self, versions: Sequence[Program]) -> None:
        """Know the programs of the hosts."""
        self.versions = versions
        self._runs = {host.ip: versions[0] for host in self.hosts}

    def install(self, host: NamespaceHost, program: Program) -> None:
        """Let a host run another version, as an operator does, and wait until all is well."""
        self.command("drain", host.ip)
        self.rehearsal.fault_begins()
        self.cluster.ray.stop(host)
        self._after(f"Ray is stopped on {host.name}", unreached=[host])
        host.imports_from = program.path
        self._runs[host.ip] = program
        self.cluster.ray.start([host])
        self._after(f"{host.name} runs version {program.version}", reached=[host])
        self.wait_until_well()
        self.check_versions()

    def check_versions(self) -> None:
        """Check what coordinators run, and that each link is the newest that both ends speak."""
        rows = (self.status() or {}).get("coordinators", [])
        for row in rows:
            program = self._runs[row["ray_host"]]
            if row["version"] != program.version:
                found = f"version {row['version']}, not {program.version}"
                raise DrillError(f"Coordinator {row['node_id']} runs {found}.")
            for other, used in row["link_versions"].items():
                peer = self._runs[rows[int(other)]["ray_host"]]
                if used != (wanted := min(program.newest_link, peer.newest_link)):
                    link = f"coordinators {row['node_id']} and {other}"
                    raise DrillError(f"The link of {link} is of version {used}, not {wanted}.")
        links = sorted(used for row in rows for used in row["link_versions"].values())
        self.rehearsal.say(f"links between coordinators: {dict(Counter(links))} (version: ends)")

    def raise_level(self) -> None:
        """Raise the feature level to the newest one that the hosts' version supports."""
        self.command("upgrade")
        self.wait_until_well()
        for row in (self.status() or {}).get("coordinators", []):
            levels = row["levels"]
            if levels["finalized"] != (wanted := levels["supported"][1]):
                found = f"level {levels['finalized']}, not {wanted}"
                raise DrillError(f"Coordinator {row['node_id']} has {found}.")

    def set_clock(self, host: NamespaceHost, ahead_ms: int) -> None:
        """Set a host's wall clock."""
        self.rehearsal.fault_begins()
        self.network.set_clock(host, ahead_ms)
        self._after(f"the wall clock of {host.name} is {ahead_ms / 1000:g} s ahead")

    def command(self, *words: str, wait_s: float = COMMAND_S) -> str:
        """Run a command of an operator that must succeed; return what it says."""
        self.rehearsal.fault_begins()
        done = self.cluster.rollcall(*words, wait_s=wait_s)
        if done.returncode:
            why = (done.stderr or done.stdout).strip()
            raise DrillError(f"`rollcall {' '.join(words)}` failed: {why}")
        self._after(f"rollcall {' '.join(words)}")
        return done.stdout

    def balance(self) -> None:
        """Balance the cluster: all hosts, spare ones too, then have their share."""
        for line in self.command("balance", wait_s=BALANCE_S).splitlines():
            self.rehearsal.say(f"  {line}")
        rows = (self.status() or {}).get("coordinators", [])
        self.homes = [row["ray_host"] for row in rows]
        held = [self.homes.count(host.ip) for host in (*self.hosts, *self.spares)]
        if not min(held) or max(held) - min(held) > 1:
            raise DrillError(f"The hosts have {held} coordinators, which is not balanced.")

    def copy_of_directory(self, host: NamespaceHost) -> Path:
        """Copy the directory of the coordinator on a host while it runs."""
        directory = self._directory(host)
        copy = host.disk / f"{directory.name}.copy"
        with suppress(shutil.Error):  # files that vanish meanwhile are not in the copy
            shutil.copytree(directory, copy)
        self.rehearsal.say(f"{directory.name} of {host.name} is copied")
        return copy

    def put_back(self, host: NamespaceHost, copy: Path) -> None:
        """Replace the directory of the coordinator on a host that is away by a copy."""
        directory = self._directory(host)
        shutil.rmtree(directory)
        copy.rename(directory)
        self.rehearsal.say(f"{directory.name} of {host.name} is the copy")

    # ---

    def _leading(self) -> set[str]:
        """Return the addresses of the hosts that lead groups."""
        return {self.clients.coordinator(group_id)[0] for group_id in self.rehearsal.group_ids}

    def _directory(self, host: NamespaceHost) -> Path:
        return host.disk / DATA.name / f"node-{self.homes.index(host.ip)}"

    def _after(
        self,
        what: str,
        *,
        reached: Collection[NamespaceHost] = (),
        unreached: Collection[NamespaceHost] = (),
    ) -> None:
        self._unreached |= {host.ip for host in unreached}
        self._unreached -= {host.ip for host in reached}
        self.clients.avoid(self._unreached)
        self.rehearsal.fault_ends()
        self.rehearsal.say(what)


def _names(hosts: Collection[NamespaceHost]) -> str:
    return " and ".join(host.name for host in hosts)


def _summary(status: dict[str, Any] | None) -> str:
    """Return what keeps a cluster from being well."""
    if status is None:
        return "No controller answers."
    rows = status["coordinators"]
    states = ", ".join(f"{row['node_id']} {row['state']} on {row['ray_host']}" for row in rows)
    partitions = (status["catalog"], *status["partitions"], *status["share_state"])
    unled = [row["partition"] for row in partitions if row["leader"] is None]
    behind = status["under_replicated"]
    return f"Coordinators: {states}. Without a leader: {unled}. Not in sync: {behind}."
