"""Coordinators in this process, on an event loop in a thread: real sockets and disks, no Ray."""

import asyncio
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from actors.cluster.spec import REPLICATION_FACTOR, Address, ClusterSpec, on_one_host
from actors.coordinator.coordinator import Coordinator
from actors.telemetry.observer import Telemetry
from actors.testing.coordinators import Neighbours
from bench.servers.processes import free_port
from tests.waiting import patient

COMMON = {"group.initial.rebalance.delay.ms": "0", "log.flush": "os"}
START_S = patient(30)


class Cluster:
    """Some coordinators; the calling thread talks to them by sockets."""

    def __init__(self, directory: Path, count: int, settings: Mapping[str, str]) -> None:
        self.spec = ClusterSpec(
            cluster_id="in-this-process",
            places=on_one_host("127.0.0.1", (free_port() for _ in range(count))),
            console=Address(host="127.0.0.1", port=0),
            data_dir=str(directory),
            overrides={**COMMON, "offsets.topic.num.partitions": str(count), **settings},
            workers=0,
            replicas_wanted=int(settings.get(REPLICATION_FACTOR, 1)),
        )
        self.coordinators: list[Coordinator] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def bootstrap(self) -> str:
        return self.spec.bootstrap

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_S)

    async def _start(self) -> None:
        for node_id in range(self.spec.partitions):
            peers = Neighbours(self.coordinators, b"secret")
            telemetry = Telemetry({"service.instance.id": node_id})
            self.coordinators.append(Coordinator(self.spec, node_id, peers, telemetry))
        for coordinator in self.coordinators:
            coordinator.start()
        for coordinator in self.coordinators:
            await coordinator.ready.wait()
            assert not coordinator.failure, coordinator.failure

    def stop(self) -> None:
        async def end() -> None:
            for coordinator in self.coordinators:
                await coordinator.stop()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(START_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)
        self._loop.close()


@contextmanager
def running(count: int = 3, settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Run that many coordinators for as long as the ``with`` lasts."""
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(Path(directory), count, settings or {})
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
