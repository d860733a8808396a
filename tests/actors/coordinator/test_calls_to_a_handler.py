"""How many functions a reader meets between a turn and what answers a request.

The frames of the stack are counted where a handler begins, under the pump, the listener and the
connections that ship. A function that only calls another is one too many.
"""

import asyncio
import sys
from types import FrameType
from typing import Any

import pytest

from failover.turn import Turn
from protocol.wire.apis import API
from protocol.wire.convert import blank
from protocol.wire.frames import encode_request
from protocol.wire.messages import MetadataRequest
from tests.actors.coordinator.pumps import connected, pump_of
from tests.failover.apis import asks
from tests.failover.working import Working, working_driver

CALLS_MAX = 8
"""Functions between ``Turn.serve`` and a handler: serve, serve, ask, receive, receive, ask, handle,
handle."""


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

    pump, _ = pump_of(driver)
    connection, _ = connected(pump)
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
    between = stack[1 : stack.index(Turn.serve.__qualname__)]
    assert 5 <= len(between) <= most, between
