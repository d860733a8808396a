"""How many functions a reader meets between a turn and what answers a request.

The frames of the stack are counted where a handler begins, under the pump, the listener and the
connections that ship. A function that only calls another is one too many.
"""

import asyncio
import sys
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from actors.coordinator.pump import Pump
from actors.serving.admission import Limits
from actors.serving.connection import Connection
from actors.telemetry.event_metrics import EventMetrics
from actors.telemetry.leader_metrics import LeaderMetrics
from failover.turn import Turn
from protocol.wire.apis import API
from protocol.wire.convert import blank
from protocol.wire.frames import encode_request
from protocol.wire.messages import MetadataRequest
from storage.log import MemoryLog, Write
from tests.failover.apis import asks
from tests.failover.working import Working, working_driver

CALLS_MAX = 8
"""Functions between ``Turn.take`` and a handler: serve, serve, ask, receive, receive, ask, handle,
handle."""


class Transport:
    """A socket's place."""

    def __init__(self) -> None:
        self.sent = b""

    def set_write_buffer_limits(self, high: int) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.sent += data


class Log:
    """A log without a disk, whose syncs are done at once."""

    def __init__(self) -> None:
        self._log = MemoryLog()

    def write(self, writes: list[Write], sync: bool) -> None:
        self._log.write(writes, sync=sync)


def names(frame: FrameType | None) -> list[str]:
    """Name the functions that are being called, the innermost first."""
    found = []
    while frame is not None:
        found.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return found


async def stack_at(file: str, function: str, frames: list[bytes], driver: Working) -> list[str]:
    """Serve a client's frames in one turn; return the stack at the first call of a function."""
    found: list[str] = []

    def look(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        is_it = code.co_name == function and code.co_filename.endswith(file)
        if event == "call" and is_it and not found:
            found.extend(names(frame))

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
    connection = Connection(pump.listener, "client")
    transport: Any = Transport()
    connection.connection_made(transport)
    pump.syncs.begin = lambda: None  # type: ignore[method-assign]
    sys.setprofile(look)
    try:
        for frame in frames:
            connection.data_received(frame)
        pump.turn()
    finally:
        sys.setprofile(None)
        connection.connection_lost(None)
        pump.close()
    return found


def frame_of(key: int, message: Any) -> bytes:
    return encode_request(key, API[key].newest_by_name, 1, "client", message)


CASES = {
    "OffsetCommit": (
        "offsets/commit.py", "commit", frame_of(8, asks.commit("g", 5)), CALLS_MAX,
    ),
    "JoinGroup": (  # one more: a group of another type may answer it
        "classic/join.py", "join_group", frame_of(11, asks.join("g")), CALLS_MAX + 1,
    ),
    "OffsetFetch": (
        "offsets/fetch.py", "fetch", frame_of(9, asks.fetch("g")), CALLS_MAX,
    ),
    "Metadata": (
        "apis/metadata.py", "metadata",
        frame_of(3, blank(MetadataRequest, topics=())), CALLS_MAX,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_reader_meets_few_functions_between_a_turn_and_a_handler(case: str) -> None:
    file, function, frame, most = CASES[case]
    stack = asyncio.run(stack_at(file, function, [frame], working_driver()))
    between = stack[1 : stack.index(Turn.take.__qualname__)]
    assert 5 <= len(between) <= most, between
