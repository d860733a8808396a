"""One coordinator in a process of its own, without Ray: something to drive, kill and start again.

``python -m tests.bench.one_node PORT DIRECTORY CONFIGS`` serves until it is killed.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import uvloop

from actors.cluster.spec import Address, ClusterSpec, on_one_host
from actors.coordinator.coordinator import Coordinator
from actors.telemetry.observer import Telemetry
from bench.client.blocking_client import BlockingClient
from bench.servers.processes import free_port
from tests.waiting import until

CONFIGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}


class OneNode:
    """A coordinator's process; its port and its data outlive it.

    ``environ`` are its environment variables, if they are not ours; ``configs`` are further ones of
    the broker, or others.
    """

    def __init__(
        self,
        directory: Path,
        environ: Mapping[str, str] | None = None,
        configs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.address = ("127.0.0.1", free_port())
        self._directory = directory
        self._environ = environ
        self._configs = json.dumps({**CONFIGS, **configs})
        self._process = None

    def start(self) -> "OneNode":
        """Start, and wait until groups are coordinated."""
        _, port = self.address
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(port), str(self._directory), self._configs],
            cwd=Path(__file__).resolve().parents[2],
            env=self._environ,
        )
        until(self._serves, 30, "the coordinator serves")
        return self

    def kill(self) -> None:
        """``kill -9``."""
        self._process.kill()
        self._process.wait()

    def _serves(self) -> bool:
        with suppress(OSError), BlockingClient(self.address) as connection:
            connection.coordinator("g")
            return True
        return False


class NoPeers:
    """The other processes of a cluster of one: none but the catalogue, which is here."""

    secret = b"secret"

    def __init__(self) -> None:
        self.coordinator: Coordinator | None = None

    async def forward(self, node_id, request):
        """There is nobody to forward to."""

    async def node_changed(self, leader, node):
        """There is no other catalogue."""
        return False

    async def directories(self):
        """Be formed of our own directory."""
        return (self.coordinator.directory_id,)

    async def peer_address(self, node_id):
        """There is no peer."""

    async def announce_peer_address(self, node_id, host, port):
        """There is no peer to tell."""

    async def announce(self, node_id, pid):
        """There is no controller."""
        return True


async def serve(port: int, directory: str, configs: Mapping[str, str]) -> None:
    """Serve for ever."""
    spec = ClusterSpec(
        cluster_id="one-node-of-the-tests0",
        places=on_one_host("127.0.0.1", (port,)),
        console=Address(host="127.0.0.1", port=0),
        data_dir=directory,
        overrides=configs,
        workers=0,
    )
    peers = NoPeers()
    peers.coordinator = Coordinator(spec, 0, peers, Telemetry({}))
    peers.coordinator.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
