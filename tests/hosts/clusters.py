"""A cluster on several hosts, used as operators and applications do."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from tests.hosts.host import DATA, Host, Running
from tests.hosts.ray_hosts import RayHosts
from tests.waiting import until

UP_S = 180.0
COMMAND_S = 60.0
CHANGE_S = 90.0
"""How long a change of hosts may take: Ray needs some seconds to notice it."""

TOPIC = "orders"
PARTITIONS = 6


@dataclass
class HostCluster:
    """A cluster on the hosts of a Ray cluster; commands are given on ``ray.head``."""

    ray: RayHosts
    settings: tuple[str, ...] = ()
    ready: dict[str, str] = field(init=False, default_factory=dict)

    def up(self) -> "HostCluster":
        """Start it; READY gives its addresses."""
        sets = [word for setting in self.settings for word in ("--set", setting)]
        done = self.rollcall("up", "--data-dir", str(DATA), "--detach", *sets, wait_s=UP_S)
        assert done.returncode == 0, done.stderr
        words = done.stdout.split()
        assert words[0] == "READY", words
        self.ready = dict(word.split("=", 1) for word in words[1:])
        return self

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""
        return self.ready["bootstrap"]

    def rollcall(
        self, *words: str, on: Host | None = None, wait_s: float = COMMAND_S
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command that uses Ray."""
        first, *others = words
        command = ("rollcall", first, "--address", self.ray.address, *others)
        return (on or self.ray.head).run(*command, env=self.ray.environment, wait_s=wait_s)

    def status(self) -> dict[str, Any]:
        """Return the status; empty while the controller does not answer."""
        done = self.rollcall("status", "--json")
        found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        return found

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

    def wait_on(self, hosts: Sequence[Host]) -> None:
        """Wait until the coordinators run on these hosts, and all replicas are in sync."""
        addresses = [host.ip for host in hosts]
        self.wait(
            lambda status: not status["under_replicated"] and hosts_in(status) == addresses,
            f"coordinators run on {', '.join(addresses)}, with all replicas in sync",
        )

    def down(self) -> None:
        """Stop it."""
        done = self.rollcall("down")
        assert done.returncode == 0, done.stderr


def hosts_in(status: Mapping[str, Any]) -> list[str]:
    """Return the hosts of the coordinators that run, by node id; "" for one that does not."""
    rows = status.get("coordinators", [])
    return [row["ray_host"] if row["state"] == "Running" else "" for row in rows]


class Riders:
    """Two static members of a group in one process of librdkafka on a host, which commit."""

    def __init__(self, client: Host, bootstrap: str) -> None:
        made = client.run(
            "rollcall", "topics", "--bootstrap-server", bootstrap, "--create", "--topic", TOPIC,
            "--partitions", str(PARTITIONS), wait_s=COMMAND_S,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        self.running: Running = client.popen(
            "python", "-m", "tests.clients.programs.confluent_kafka_riders",
            f"bootstrap={bootstrap}", f"subscribe={TOPIC}", "protocol=classic",
            "member=first,g,static-1", "member=second,g,static-2",
            stdin=subprocess.PIPE,
        )  # fmt: skip
        until(lambda: self.owned() == PARTITIONS, COMMAND_S, "both members have their share")

    def events(self, *names: str) -> list[str]:
        """Return the lines about these events so far."""
        assert self.running.process.poll() is None, self.running.stderr.read_text()
        lines = [line for line in self.running.said().splitlines() if len(line.split()) > 2]
        return [line for line in lines if line.split()[2] in names]

    def owned(self) -> int:
        """Return how many partitions the last assignments have."""
        last = {line.split()[1]: line.split()[3] for line in self.events("ASSIGNED") if line}
        return sum(len(partitions.split(",")) for partitions in last.values())

    def wait_for_commits(self) -> None:
        """Wait until both members have committed once more."""
        before = len(self.events("COMMITTED"))

        def have_committed() -> bool:
            said = self.events("COMMITTED")[before:]
            return {line.split()[1] for line in said} == {"first", "second"}

        until(have_committed, CHANGE_S, "both members commit")

    def end(self) -> None:
        """Close them."""
        assert self.running.process.stdin is not None
        self.running.process.stdin.close()
        assert self.running.process.wait(COMMAND_S) == 0
