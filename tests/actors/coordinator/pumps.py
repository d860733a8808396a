"""A pump on a host in memory, with one client's connection, both without sockets and disks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from actors.coordinator.pump import Pump
from actors.serving.admission import Limits
from actors.serving.connection import Connection
from actors.telemetry.event_metrics import EventMetrics
from actors.telemetry.leader_metrics import LeaderMetrics
from storage.log import MemoryLog, Write
from tests.failover.hosts import Driver


class Transport:
    """A socket's place."""

    def __init__(self) -> None:
        self.sent = b""

    def set_write_buffer_limits(self, high: int) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None: ...

    def write(self, data: bytes) -> None:
        self.sent += data


class Log:
    """A log without a disk; ``units`` counts what was written as one."""

    def __init__(self) -> None:
        self.units = 0
        self._log = MemoryLog()

    def write(self, writes: list[Write], sync: bool) -> None:
        self.units += 1
        self._log.write(writes, sync=sync)


def pump_of(driver: Driver) -> tuple[Pump, Log]:
    """Return a pump of a driver's host, whose syncs never end; call it in a running event loop."""
    dependencies: Any = SimpleNamespace(
        limits=Limits(request_bytes_max=1 << 20, idle_ms_max=-1),
        dispatcher=SimpleNamespace(metrics=SimpleNamespace(observe=lambda _: None)),
        group_metrics=SimpleNamespace(observe=lambda _: None),
        event_metrics=EventMetrics(),
        leader_metrics=LeaderMetrics(),
        observer=SimpleNamespace(observe=lambda _: None),
        forwarding=None,
        incidents=None,
        clock=SimpleNamespace(now=lambda: driver.now, stalled_ms=lambda: 0),
    )
    log: Any = Log()
    pump = Pump(driver.host, log, dependencies, lambda: None)
    pump.links = SimpleNamespace(send=lambda *_: None, close=lambda: None, linked=())  # type: ignore[assignment]
    pump.syncs.begin = lambda: None  # type: ignore[method-assign]
    return pump, log


def connected(pump: Pump) -> tuple[Connection, Transport]:
    """Return a client's connection to a pump, and the place of its socket."""
    connection = Connection(pump.listener, "client")
    transport: Any = Transport()
    connection.connection_made(transport)
    return connection, transport
