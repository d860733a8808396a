"""A cluster on several hosts, used as operators and applications do."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from bench.hosts.host import DATA, NamespaceHost
from bench.hosts.ray_hosts import RayOnHosts
from bench.hosts.waiting import HostError, patient, until

UP_S = patient(180)
COMMAND_S = patient(60)
CHANGE_S = patient(90)
"""How long a change of hosts may take: Ray needs some seconds to notice it."""


@dataclass
class HostCluster:
    """A cluster on the hosts of a Ray cluster; commands are given on ``ray.head``."""

    ray: RayOnHosts
    settings: tuple[str, ...] = ()
    ready: dict[str, str] = field(init=False, default_factory=dict)

    def up(self, wait_s: float = UP_S) -> "HostCluster":
        """Start it; READY gives its addresses."""
        sets = [word for setting in self.settings for word in ("--set", setting)]
        done = self.rollcall("up", "--data-dir", str(DATA), "--detach", *sets, wait_s=wait_s)
        if done.returncode:
            raise HostError(f"`rollcall up` failed: {done.stderr or done.stdout}")
        return self.started(done.stdout)

    def started(self, said: str) -> "HostCluster":
        """Take the addresses from what ``rollcall up`` has said."""
        words = said.split()
        if words[:1] != ["READY"]:
            raise HostError(f"`rollcall up` did not say READY: {said}")
        self.ready = dict(word.split("=", 1) for word in words[1:])
        return self

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""
        return self.ready["bootstrap"]

    def rollcall(
        self, *words: str, on: NamespaceHost | None = None, wait_s: float = COMMAND_S
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command that uses Ray."""
        first, *others = words
        command = ("rollcall", first, "--address", self.ray.address, *others)
        return (on or self.ray.head).run(*command, env=self.ray.environment, wait_s=wait_s)

    def status(self) -> dict[str, Any]:
        """Return the status; empty while there is none: the controller does not answer."""
        try:
            done = self.rollcall("status", "--json")
        except HostError:
            return {}
        found: dict[str, Any] = json.loads(done.stdout or "{}")
        return {} if "error" in found else found

    def hosts(self) -> list[str]:
        """Return the hosts of the coordinators that run now (:func:`hosts_in`)."""
        return hosts_in(self.status())

    def wait(self, is_so: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
        """Wait until the status is so."""
        found: dict[str, Any] = {}

        def look() -> bool:
            found.clear()
            found.update(self.status())
            return bool(found) and bool(is_so(found))

        until(look, CHANGE_S, what)
        return found

    def wait_for_leaders(self, node_ids: Set[int]) -> None:
        """Wait until these coordinators lead all groups."""
        self.wait(
            lambda status: {row["leader"] for row in status["partitions"]} <= node_ids,
            f"coordinators {sorted(node_ids)} lead all groups",
        )

    def wait_on(self, hosts: Sequence[NamespaceHost]) -> None:
        """Wait until the coordinators run on these hosts, and all replicas are in sync."""
        addresses = [host.ip for host in hosts]
        self.wait(
            lambda status: not status["under_replicated"] and hosts_in(status) == addresses,
            f"coordinators run on {', '.join(addresses)}, with all replicas in sync",
        )

    def down(self) -> None:
        """Stop it."""
        done = self.rollcall("down")
        if done.returncode:
            raise HostError(f"`rollcall down` failed: {done.stderr}")


def hosts_in(status: Mapping[str, Any]) -> list[str]:
    """Return the hosts of the coordinators that run, by node id; "" for one that does not."""
    rows = status.get("coordinators", [])
    return [row["ray_host"] if row["state"] == "Running" else "" for row in rows]


def compile_assignors() -> None:
    """Compile once what the hosts' assignor workers need, which is kept beside the sources.

    All of them at once would compile it for minutes, and consumer groups wait for them.
    """
    from protocol.assignors.warm_up import warm_up

    warm_up()
